"""Backend `claude_cli`: Claude Code's program `claude`, in print mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from skillopt.core.chat import Model, Usage
from skillopt.model.cli.dialect import Asked, Command, Heard, events, number
from skillopt.model.cli.text import TextProgram
from skillopt.model.provider import Json, Transport
from skillopt.model.settings import ModelSettings

_PLAIN = "You answer with text. You have no tools."
"""Stands in for the program's own instructions, which make it a coding agent."""


class ClaudeCli:
    """`claude -p`: no tools, no settings, no memory of the call."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = True

    backend: ClassVar[str] = "claude_cli"
    program: ClassVar[str] = "claude"
    path_key: ClassVar[str] = "claude_code_exec_path"
    path_variables: ClassVar[tuple[str, ...]] = ("CLAUDE_CLI_BIN",)
    key_name: ClassVar[str] = "ANTHROPIC_API_KEY"
    home_name: ClassVar[str] = "CLAUDE_CONFIG_DIR"
    variables: ClassVar[tuple[str, ...]] = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    )
    efforts: ClassVar[tuple[str, ...]] = ("low", "medium", "high", "xhigh", "max")
    login: ClassVar[str] = "run `claude` once and log in, or set ANTHROPIC_API_KEY"

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        del http
        return TextProgram.create(settings, cls())

    def command(self, asked: Asked, work: Path, side: Path) -> Command:
        """The prompt goes to standard input, instructions into a file."""
        del work
        instructions = side / "instructions.md"
        instructions.write_text(asked.system or _PLAIN, encoding="utf-8")
        arguments = ["-p", "--output-format", "json", "--permission-mode", "dontAsk"]
        arguments += ["--tools", "", "--strict-mcp-config", "--setting-sources", ""]
        arguments += ["--no-session-persistence", "--system-prompt-file", str(instructions)]
        if asked.model:
            arguments += ["--model", asked.model]
        if asked.effort:
            arguments += ["--effort", asked.effort]
        return Command(arguments, asked.prompt)

    def read(self, out: str) -> Heard:
        """The `result` event, alone or the last of a list."""
        match _result(out):
            case {"is_error": True, **rest}:
                problem = rest.get("result") or rest.get("subtype")
                return Heard(None, problem=str(problem or "an error without a word"))
            case {"result": str(text), **rest}:
                return Heard(text, _usage(rest))
            case {"subtype": str(kind)}:
                return Heard(None, problem=kind)
            case _:
                return Heard(None)


def _result(out: str) -> Json:
    try:
        found: Json = json.loads(out)
    except (ValueError, RecursionError):
        found = list(events(out))
    if not isinstance(found, list):
        return found
    results = [each for each in found if isinstance(each, dict) and each.get("type") == "result"]
    return results[-1] if results else None


def _usage(result: dict[str, Json]) -> Usage | None:
    match result.get("usage"):
        case {"input_tokens": int(fresh), "output_tokens": int(written), **rest}:
            read, made = (
                number(rest.get(f"cache_{how}_input_tokens")) for how in ("read", "creation")
            )
            cost = result.get("total_cost_usd")
            dollars = float(cost) if isinstance(cost, float | int) else 0.0
            return Usage(1, fresh + read + made, written, read, dollars)
        case _:
            return None
