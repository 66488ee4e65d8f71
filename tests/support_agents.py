"""The real programs, where `make agents` has installed them, and a user who has set them up."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PLANTED = "planted-words-of-the-user"
"""Stands in every file that a program might read on its own."""


def installed(name: str) -> str:
    """The path of a program; without it the test is skipped."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = os.environ.get("SKILLOPT_AGENTS") or Path(cache) / "skillopt" / "agents"
    path = Path(folder) / "node_modules" / ".bin" / name
    if not path.exists():
        pytest.skip(f"{name} is not installed; `make agents` installs it")
    return str(path)


@dataclass(frozen=True)
class User:
    """Somebody whose files all say PLANTED, and whose servers and hooks leave a trace."""

    home: Path
    cwd: Path
    temporary: Path
    traces: Path

    @property
    def started(self) -> list[str]:
        """Servers and hooks that were started."""
        return sorted(each.name for each in self.traces.iterdir())

    @property
    def left_behind(self) -> list[str]:
        """What programs left in the folder for temporary files."""
        return sorted(each.name for each in self.temporary.iterdir() if "skillopt" in each.name)


def make_user(folder: Path) -> User:
    user = User(*(folder / name for name in ("home", "project", "temporary", "traces")))
    for each in (user.home, user.cwd, user.temporary, user.traces):
        each.mkdir()
    for root in (user.home, user.cwd, user.temporary):
        for path, text in _files(user.traces).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
    return user


def _files(traces: Path) -> dict[str, str]:
    """Every kind of file that a program reads by itself: rules, skills, servers, hooks, memory."""
    skill = f"---\nname: planted\ndescription: {PLANTED}\n---\n{PLANTED}\n"
    rules = (
        "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".claude/CLAUDE.md", ".codex/AGENTS.md",
        ".codex/memories/MEMORY.md", ".copilot/copilot-instructions.md", ".copilot/AGENTS.md",
        ".github/copilot-instructions.md", ".claude/agents/planted.md",
    )  # fmt: skip
    skills = [f"{each}/skills/planted/SKILL.md" for each in (".agents", ".claude", ".codex")]
    skills += [f"{each}/skills/planted/SKILL.md" for each in (".copilot", ".github")]
    server = {"type": "stdio", "command": sys.executable, "args": ["-c", _leave(traces / "mcp")]}
    servers = json.dumps({"mcpServers": {"planted": {**server, "tools": ["*"]}}})
    command = f"{sys.executable} -c '{_leave(traces / 'hook')}'"
    hook = [{"hooks": [{"type": "command", "command": command}]}]
    hooks = {"hooks": {"UserPromptSubmit": hook, "SessionStart": hook, "Stop": hook}}
    codex = (
        f'developer_instructions = "{PLANTED}"\n'
        f'[mcp_servers.planted]\ncommand = "{sys.executable}"\n'
        f"args = {json.dumps(server['args'])}\n"
    )
    return {
        **dict.fromkeys(rules, f"Say {PLANTED}.\n"),
        **dict.fromkeys(skills, skill),
        ".mcp.json": servers,
        ".claude.json": servers,
        ".claude/settings.json": json.dumps({**hooks, "env": {"PLANTED": PLANTED}}),
        ".codex/config.toml": codex,
        ".codex/hooks.json": json.dumps(hooks),
        ".copilot/mcp-config.json": servers,
        ".copilot/config.json": json.dumps({"trusted_folders": ["/"], "planted": PLANTED}),
    }


def _leave(trace: Path) -> str:
    return f'open("{trace}", "w").close()'


def processes_in(folder: Path) -> list[int]:
    """Processes whose home or temporary folder is below this one (Linux only)."""
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            environment = (each / "environ").read_bytes()
        except OSError:
            continue
        if f"HOME={folder}/".encode() in environment:
            found.append(int(each.name))
    return found
