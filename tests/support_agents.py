"""The real programs, where `make agents` has installed them, and a user who has set them up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillopt.app.harness import make_harness, models_with_harness, with_agent
from skillopt.app.models import ModelFactory
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Image
from skillopt.core.episode import EpisodeLimits, Workspace
from skillopt.core.ports import Harness
from skillopt.core.rollout import Score, Trajectory
from skillopt.model.budget import Budget, Limits, Meter
from skillopt.model.http import Http
from skillopt.testing.doubles import MemoryCache
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import Call

TARGET_KEY = "key-of-the-loopback-server-0123456789"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_FOLDER = Path(os.environ.get("SKILLOPT_AGENTS") or _CACHE / "skillopt" / "agents")
PLANTED = "planted-words-of-the-user"
"""Stands in every file that a program might read on its own."""


@dataclass(frozen=True)
class AgentFacts:
    """What a test has to know about an agent: how its model opens the skill and writes a file."""

    program: str
    root: str
    """What follows the address of the server."""
    key: str
    """The variable of the key."""
    reads: Call
    writes: Call
    shell: str
    """The tool that runs a command."""
    command: str = "command"
    """Its argument."""
    seconds: int = 60
    """In which it has surely done something, on a machine that has other things to do."""

    @property
    def slow(self) -> Call:
        return self._run("sleep 100")

    @property
    def floods(self) -> Call:
        return self._run("yes abcdefgh | head -c 3000000")

    def _run(self, command: str) -> Call:
        return Call(self.shell, {self.command: command, "description": "a command"})


def _skill(folder: str) -> str:
    return f"/workspace/{folder}/skills/skillopt-target/SKILL.md"


_OUT, _TEXT = "/workspace/out.txt", "made by the agent"
CURSOR = AgentFacts("cursor-agent", "", "CURSOR_API_KEY", Call("", {}), Call("", {}), "")
AGENTS = {
    "codex_exec": AgentFacts(
        *("codex", "/v1", "OPENAI_API_KEY"),
        Call("exec_command", {"cmd": f"cat {_skill('.agents')}"}),
        Call("exec_command", {"cmd": f"printf '{_TEXT}' > out.txt"}),
        *("exec_command", "cmd", 20),
    ),
    "claude_code_exec": AgentFacts(
        *("claude", "", "ANTHROPIC_API_KEY"),
        Call("Read", {"file_path": _skill(".claude")}),
        Call("Write", {"file_path": _OUT, "content": _TEXT}),
        *("Bash", "command", 20),
    ),
    "copilot_exec": AgentFacts(
        *("copilot", "/v1", "OPENAI_API_KEY"),
        Call("view", {"path": _skill(".github")}),
        Call("create", {"path": _OUT, "file_text": _TEXT}),
        "bash",
    ),
    "gemini_exec": AgentFacts(
        *("gemini", "/v1beta", "GEMINI_API_KEY"),
        Call("read_file", {"file_path": _skill(".gemini")}),
        Call("write_file", {"file_path": _OUT, "content": _TEXT}),
        "run_shell_command",
    ),
    "opencode_exec": AgentFacts(
        *("opencode", "/v1", "OPENAI_API_KEY"),
        Call("read", {"filePath": _skill(".opencode")}),
        Call("write", {"filePath": _OUT, "content": _TEXT}),
        "bash",
    ),
    "qwen_exec": AgentFacts(
        *("qwen", "/v1", "QWEN_CHAT_API_KEY"),
        Call("read_file", {"file_path": _skill(".qwen")}),
        Call("write_file", {"file_path": _OUT, "content": _TEXT}),
        "run_shell_command",
    ),
}


@dataclass(frozen=True)
class FileTask:
    """A task with files of its own."""

    brief: str = "What is the sum of the numbers in given/numbers.txt?"
    instructions: str = "You add numbers."
    workspace: Workspace = field(
        default_factory=lambda: Workspace(
            files={"given/numbers.txt": b"1\n3\n"}, collect=("*.txt", "*.md")
        )
    )
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)
    images: tuple[Image, ...] = ()

    async def score(self, trajectory: Trajectory) -> Score:
        right = float(trajectory.answer == "4")
        return Score(right, right)


@dataclass(frozen=True)
class OpenAgent:
    harness: Harness
    budget: Budget


@asynccontextmanager
async def open_agent(
    name: str,
    server: ModelServer,
    *overrides: str,
    path: str = "",
    key: str = TARGET_KEY,
    limits: Limits | None = None,
    model: str = "m",
    variables: Mapping[str, str] | None = None,
    keep: Path | None = None,
) -> AsyncGenerator[OpenAgent, None]:
    """An agent as a run would make it from a configuration."""
    facts = AGENTS.get(name, CURSOR)
    config = load_config(
        overrides=[
            f"model.target_backend={name}",
            f"model.target={model}",
            f"model.target_base_url={server.url}{facts.root}",
            f"model.{name}_path={path or installed(facts.program)}",
            "model.target_retries=0",
            "env.agent_seconds=120",
            *overrides,
        ]
    )
    config = with_agent(config)
    shell = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], facts.key: key}
    secrets = Secrets({**shell, "CURSOR_API_KEY": "key-of-cursor", **(variables or {})})
    async with Http() as http:
        budget = Budget(Meter(), limits or Limits())
        factory = ModelFactory(secrets, http, MemoryCache(), budget)
        own = models_with_harness(config, {}, None)
        target = factory.models_for(config, ["target"], own)["target"]
        yield OpenAgent(make_harness(config, target, factory, keep), budget)


def installed(name: str) -> str:
    """The path of a program; without it the test is skipped."""
    path = _FOLDER / "node_modules" / ".bin" / name
    if name not in os.environ.get("SKILLOPT_PROGRAMS", name).split():
        pytest.skip(f"{name} is not among PROGRAMS")
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
        ".github/copilot-instructions.md", ".claude/agents/planted.md", "QWEN.md",
        ".gemini/GEMINI.md", ".qwen/QWEN.md", ".config/opencode/AGENTS.md",
    )  # fmt: skip
    skills = [f"{each}/skills/planted/SKILL.md" for each in (".agents", ".claude", ".codex")]
    skills += [f"{each}/skills/planted/SKILL.md" for each in (".copilot", ".github", ".gemini")]
    skills += [f"{each}/skills/planted/SKILL.md" for each in (".qwen", ".config/opencode")]
    server = {"type": "stdio", "command": sys.executable, "args": ["-c", _leave(traces / "mcp")]}
    servers = json.dumps({"mcpServers": {"planted": {**server, "tools": ["*"]}}})
    command = f"{sys.executable} -c '{_leave(traces / 'hook')}'"
    hook = [{"hooks": [{"type": "command", "command": command}]}]
    hooks = {"hooks": {"UserPromptSubmit": hook, "SessionStart": hook, "Stop": hook}}
    local = {"type": "local", "command": [sys.executable, "-c", _leave(traces / "mcp")]}
    opencode = json.dumps({"mcp": {"planted": local}, "instructions": ["AGENTS.md"]})
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
        ".gemini/settings.json": servers,
        ".qwen/settings.json": servers,
        ".config/opencode/opencode.json": opencode,
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
