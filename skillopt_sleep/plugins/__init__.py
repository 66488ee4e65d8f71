"""What is installed for each agent program: files of its own, and entries in its configuration.

One folder (`skillopt-sleep/`) is a plugin as it is for Claude Code, Codex and Copilot; the files of
the other programs are made from it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from skillopt_sleep.merging import Entry, JsonEntry, TomlTable
from skillopt_sleep.starting import own_command

MARKETPLACE: Final = Path(__file__).parent
"""A folder that `plugin marketplace add` of claude, codex and copilot takes."""
_PLUGIN: Final = MARKETPLACE / "skillopt-sleep"
_NAME: Final = "skillopt-sleep"
_SKILL: Final = "skills/nightly-learning/SKILL.md"
_CALL: Final = re.compile(r"\bskillopt-sleep(?= (?:[a-z]|\$ARG|-))|(?<=Bash\()skillopt-sleep(?=:)")
_FRONT: Final = re.compile(r"\A---\n(.*?)^---\n+", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plugin:
    """What is installed for an agent program, below the user's home."""

    files: Mapping[str, str]
    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    """By the configuration file that each is put into."""
    note: str = ""
    """What the user has to know."""


def plugins(command: Sequence[str] | None = None) -> dict[str, Plugin]:
    """All plugins, by agent program; `command` is what starts `skillopt-sleep`."""
    command = command or own_command()
    source = _Source(command)
    program, *arguments = [*command, "mcp"]
    server = {"command": program, "args": arguments}
    return {
        "claude": Plugin(
            source.below(".claude/skills/skillopt-sleep", source.plugin()),
            note="Claude Code loads it at the next start (`claude plugin list`).",
        ),
        "codex": Plugin(
            source.below(".agents", {_SKILL: source.text(_SKILL)}),
            {
                ".codex/config.toml": TomlTable(
                    f"mcp_servers.{_NAME}", (("command", program), ("args", tuple(arguments)))
                )
            },
        ),
        "copilot": Plugin(
            source.below(".copilot", {_SKILL: source.text(_SKILL)}),
            {".copilot/mcp-config.json": JsonEntry(("mcpServers", _NAME), server)},
        ),
        "cursor": Plugin(
            source.below(".cursor/plugins/local/skillopt-sleep", source.cursor(server)),
            note="Cursor loads it after `Developer: Reload Window`.",
        ),
        "devin": Plugin(
            source.below(".config/devin", {_SKILL: source.text(_SKILL)}),
            {".config/devin/config.json": JsonEntry(("mcpServers", _NAME), server)},
        ),
        "gemini": Plugin(
            source.below(".gemini/extensions/skillopt-sleep", source.extension("gemini", server))
        ),
        "openclaw": Plugin(
            source.below(".openclaw", {_SKILL: source.text(_SKILL)}),
            {".openclaw/openclaw.json": JsonEntry(("mcp", "servers", _NAME), server)},
        ),
        "opencode": Plugin(
            source.below(".config/opencode", source.opencode()),
            {
                ".config/opencode/opencode.json": JsonEntry(
                    ("mcp", _NAME),
                    {"type": "local", "command": [program, *arguments], "enabled": True},
                )
            },
        ),
        "qwen": Plugin(
            source.below(".qwen/extensions/skillopt-sleep", source.extension("qwen", server))
        ),
    }


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of the plugin, with the command that is right on this machine."""

    command: Sequence[str]

    def below(self, folder: str, files: Mapping[str, str]) -> dict[str, str]:
        return {f"{folder}/{name}": text for name, text in files.items()}

    def text(self, name: str) -> str:
        called = shlex.join(self.command)
        text = (_PLUGIN / name).read_text(encoding="utf-8")
        return _CALL.sub(lambda _: called, text) if name.endswith(".md") else text

    def plugin(self) -> dict[str, str]:
        """As Claude Code reads it."""
        program, *arguments = self.command
        files = {
            path.relative_to(_PLUGIN).as_posix(): self.text(path.relative_to(_PLUGIN).as_posix())
            for path in sorted(_PLUGIN.rglob("*"))
            if path.is_file()
        }
        server = {"command": program, "args": [*arguments, "mcp"]}
        files[".mcp.json"] = _json({"mcpServers": {_NAME: server}})
        hooks = json.loads(files["hooks/hooks.json"])
        for group in hooks["hooks"]["SessionEnd"]:
            for hook in group["hooks"]:
                hook["command"] = _CALL.sub(lambda _: shlex.join(self.command), hook["command"])
        files["hooks/hooks.json"] = _json(hooks)
        return files

    def manifest(self) -> dict[str, Any]:
        return json.loads(self.text(".claude-plugin/plugin.json"))

    def cursor(self, server: Mapping[str, object]) -> dict[str, str]:
        commands = {f"commands/{name}.md": self._command(name)[1] for name in self._commands()}
        folders = {"commands": "./commands/", "skills": "./skills/"}
        named = {"displayName": "SkillOpt Sleep", "category": "productivity", **folders}
        # Cursor starts servers in a folder of its own, and fills in the project.
        server = {**server, "args": [*self.command[1:], "mcp", "--project", "${workspaceFolder}"]}
        return {
            ".cursor-plugin/plugin.json": _json({**self.manifest(), **named}),
            "mcp.json": _json({"mcpServers": {_NAME: server}}),
            _SKILL: self.text(_SKILL),
            **commands,
        }

    def extension(self, program: str, server: Mapping[str, object]) -> dict[str, str]:
        """As Gemini and Qwen read it; their commands are TOML files."""
        manifest = {key: self.manifest()[key] for key in ("name", "version", "description")}
        files = {
            f"{program}-extension.json": _json({**manifest, "mcpServers": {_NAME: server}}),
            _SKILL: self.text(_SKILL),
        }
        for name in self._commands():
            front, body = self._command(name)
            prompt = body.replace("$ARGUMENTS", "{{args}}")
            lines = {"description": front["description"], "prompt": prompt}
            told = "".join(
                f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items()
            )
            files[f"commands/{name}.toml"] = told
        return files

    def opencode(self) -> dict[str, str]:
        files = {_SKILL: self.text(_SKILL)}
        for name in self._commands():
            front, body = self._command(name)
            head = yaml.safe_dump({"description": front["description"]}, width=2**16)
            files[f"command/{name}.md"] = f"---\n{head}---\n\n{body}"
        return files

    def _commands(self) -> list[str]:
        return sorted(path.stem for path in (_PLUGIN / "commands").glob("*.md"))

    def _command(self, name: str) -> tuple[dict[str, str], str]:
        text = self.text(f"commands/{name}.md")
        front = _FRONT.match(text)
        assert front is not None  # noqa: S101 - our own file
        return yaml.safe_load(front[1]), text[front.end() :]


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
