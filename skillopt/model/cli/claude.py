"""Backend `claude_cli`: Claude Code's program `claude`, in print mode."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from skillopt.core.chat import Model, Usage
from skillopt.core.intake import read_json
from skillopt.model.cli.dialect import Command, ProgramCall, ProgramReply, events, number
from skillopt.model.cli.home import Place
from skillopt.model.cli.text import TextProgram
from skillopt.model.provider import Json, ModelSettings, Transport

_PLAIN = "You answer with text. You have no tools."
"""Stands in for the program's own instructions, which make it a coding agent."""


_QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",  # else a second call per question, for a title
    "CLAUDE_CODE_MAX_RETRIES": "0",  # retries are ours; it would try a wrong key for minutes
    "DISABLE_AUTOUPDATER": "1",
}


_PER_CALL: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_PER_MODEL: Final = (
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
)


class ClaudeCli:
    """`claude -p`: no tools, no settings, no memory of the call."""

    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_BASE_URL",)
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = True

    backend: ClassVar[str] = "claude_cli"
    program: ClassVar[str] = "claude"
    path_key: ClassVar[str] = "claude_code_exec_path"
    path_variables: ClassVar[tuple[str, ...]] = ("CLAUDE_CLI_BIN",)
    key_name: ClassVar[str] = "ANTHROPIC_API_KEY"
    server_key_name: ClassVar[str] = "ANTHROPIC_API_KEY"
    folder: ClassVar[str] = ".claude"
    folder_variable: ClassVar[str] = "CLAUDE_CONFIG_DIR"
    variables: ClassVar[tuple[str, ...]] = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
    )
    efforts: ClassVar[tuple[str, ...]] = ("low", "medium", "high", "xhigh", "max")
    login: ClassVar[str] = "run `claude` once and log in, or set ANTHROPIC_API_KEY"

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        del http
        return TextProgram.create(settings, cls())

    def credentials(self, asked: ProgramCall) -> tuple[str, ...]:
        """The file of the log-in, where that is not in a keyring."""
        return () if asked.base_url else (".credentials.json",)

    def command(self, asked: ProgramCall, place: Place) -> Command:
        """The prompt goes to standard input, instructions into a file."""
        instructions = place.side / "instructions.md"
        instructions.write_text(asked.system or _PLAIN, encoding="utf-8")
        arguments = ["-p", "--output-format", "json", "--permission-mode", "dontAsk"]
        arguments += ["--tools", "", "--strict-mcp-config", "--setting-sources", ""]
        arguments += ["--no-session-persistence", "--system-prompt-file", str(instructions)]
        if asked.model:
            arguments += ["--model", asked.model]
        if asked.effort:
            arguments += ["--effort", asked.effort]
        server = {"ANTHROPIC_BASE_URL": asked.base_url} if asked.base_url else {}
        return Command(arguments, asked.prompt, {**_QUIET, **server})

    def read(self, out: str, place: Place) -> ProgramReply:
        """The `result` event, alone or the last of a list."""
        del place
        match _result(out):
            case {"is_error": True, **rest}:
                problem = rest.get("result") or rest.get("subtype")
                return ProgramReply(None, problem=str(problem or "an error without a message"))
            case {"result": str(text), **rest}:
                return ProgramReply(text, _usage(rest))
            case {"subtype": str(kind)}:
                return ProgramReply(None, problem=kind)
            case _:
                return ProgramReply(None)


def _result(out: str) -> Json:
    try:
        found: Json = read_json(out)
    except ValueError:
        found = list(events(out))
    if not isinstance(found, list):
        return found
    results = [each for each in found if isinstance(each, dict) and each.get("type") == "result"]
    return results[-1] if results else None


def _usage(result: dict[str, Json]) -> Usage | None:
    """All that was used, by whichever model; `usage` alone leaves out side questions."""
    cost, turns = result.get("total_cost_usd"), number(result.get("num_turns"))
    dollars = float(cost) if isinstance(cost, float | int) else 0.0
    match result.get("modelUsage"):
        case dict(models) if models:
            counts = [_tokens(each, _PER_MODEL) for each in models.values()]
        case _:
            counts = [_tokens(result.get("usage"), _PER_CALL)]
    if None in counts:
        return None
    total = sum((each for each in counts if each is not None), Usage())
    return replace(total, calls=max(1, turns), dollars=dollars)


def _tokens(counts: Json, names: tuple[str, str, str, str]) -> Usage | None:
    fresh, written, read, stored = names
    match counts:
        case {**found} if isinstance(found.get(fresh), int) and isinstance(found.get(written), int):
            cached, made = number(found.get(read)), number(found.get(stored))
            sent = number(found.get(fresh)) + cached + made
            return Usage(1, sent, number(found.get(written)), cached)
        case _:
            return None
