"""Backend `claude_cli`: Claude Code's program `claude`, in print mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from skillopt.core.chat import Usage
from skillopt.core.intake import Json, json_lines, read_json
from skillopt.model.cli.process import Place
from skillopt.model.cli.program import (
    PLAIN,
    Program,
    ProgramArguments,
    ProgramCall,
    ProgramReply,
)
from skillopt.model.wire import count, usage_apart

_QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",  # else a second call per question, for a title
    "CLAUDE_CODE_MAX_RETRIES": "0",  # retries are ours; it would try a wrong key for minutes
    "DISABLE_AUTOUPDATER": "1",
}
_PER_MODEL: Final = (
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
)


class ClaudeCli(Program):
    """`claude -p`: no tools, no settings, no memory of the call."""

    key_variables = ("ANTHROPIC_API_KEY",)
    url_variables = ("ANTHROPIC_BASE_URL",)
    takes_shared_effort = True

    backend = "claude_cli"
    program = "claude"
    path_key = "claude_code_exec_path"
    path_variables = ("CLAUDE_CLI_BIN",)
    key_name = "ANTHROPIC_API_KEY"
    folder = ".claude"
    folder_variable = "CLAUDE_CONFIG_DIR"
    variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    efforts = ("low", "medium", "high", "xhigh", "max")
    login = "run `claude` once and log in, or set ANTHROPIC_API_KEY"

    def credentials(self, call: ProgramCall) -> tuple[str, ...]:
        """The file of the log-in, where that is not in a keyring."""
        return () if call.settings.base_url else (".credentials.json",)

    def command(self, call: ProgramCall, place: Place) -> ProgramArguments:
        """The prompt goes to standard input, instructions into a file."""
        instructions = place.side / "instructions.md"
        instructions.write_text(call.system or PLAIN, encoding="utf-8")
        arguments = ["-p", "--output-format", "json", "--permission-mode", "dontAsk"]
        arguments += ["--tools", "", "--strict-mcp-config", "--setting-sources", ""]
        arguments += ["--no-session-persistence", "--system-prompt-file", str(instructions)]
        if call.model:
            arguments += ["--model", call.model]
        if call.settings.effort:
            arguments += ["--effort", call.settings.effort]
        url = call.settings.base_url
        server = {"ANTHROPIC_BASE_URL": url} if url else {}
        return ProgramArguments(arguments, call.prompt, {**_QUIET, **server})

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
        output = read_json(out)
    except ValueError:
        output = list[Json](json_lines(out))
    if not isinstance(output, list):
        return output
    results = [event for event in output if isinstance(event, dict) and _is_result(event)]
    return results[-1] if results else None


def _is_result(event: dict[str, Json]) -> bool:
    return event.get("type") == "result"


def _usage(result: dict[str, Json]) -> Usage | None:
    """All that was used, by whichever model; `usage` alone leaves out side questions."""
    cost, turns = result.get("total_cost_usd"), count(result.get("num_turns"))
    match result.get("modelUsage"):
        case dict(models) if models:
            counts = [usage_apart(used, _PER_MODEL) for used in models.values()]
        case _:
            counts = [usage_apart(result.get("usage"))]
    total = Usage()
    for usage in counts:
        if usage is None:
            return None
        total += usage
    dollars = float(cost) if isinstance(cost, float | int) else 0.0
    return replace(total, calls=max(1, turns), dollars=dollars, stored=0)
