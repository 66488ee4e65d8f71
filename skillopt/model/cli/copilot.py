"""Backend `copilot_chat`: GitHub's program `copilot`, one prompt at a time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from skillopt.core.chat import Usage
from skillopt.core.intake import Json, json_lines, read_json
from skillopt.model.cli.process import Place
from skillopt.model.cli.program import Program, ProgramArguments, ProgramCall, ProgramReply
from skillopt.model.wire import count

_USAGE: Final = "usage.json"
_LOGIN: Final = {
    "copilotTokens", "copilot_tokens", "loggedInUsers", "logged_in_users", "lastLoggedInUser",
    "last_logged_in_user",
}  # fmt: skip
"""Keys of the program's `config.json` that say who is logged in; it holds other things too."""
_COMMENT: Final = re.compile(r"(?m)^\s*//.*$")


class CopilotChat(Program):
    """`copilot` with a prompt on standard input: no tools, no servers, no custom instructions."""

    url_variables = ("COPILOT_PROVIDER_BASE_URL",)

    backend = "copilot_chat"
    program = "copilot"
    path_key = "copilot_exec_path"
    path_variables = ("COPILOT_EXEC_PATH",)
    key_name = "COPILOT_GITHUB_TOKEN"
    server_key_name = "COPILOT_PROVIDER_API_KEY"
    folder = ".copilot"
    folder_variable = "COPILOT_HOME"
    variables = (
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_WIRE_API",
    )
    login = "run `copilot` once and log in, or set COPILOT_GITHUB_TOKEN"

    def credentials(self, call: ProgramCall) -> tuple[str, ...]:
        """None as it is: the file of the log-in holds settings too."""
        del call
        return ()

    def command(self, call: ProgramCall, place: Place) -> ProgramArguments:
        """Everything goes to standard input."""
        url = call.settings.base_url
        if not url:
            _log_in(place)
        arguments = ["--output-format", "json", "--stream", "off", "--no-color"]
        arguments += ["--log-level", "none", "--disable-builtin-mcps", "--no-custom-instructions"]
        # A tool that does not exist: an empty list would switch nothing off.
        arguments += ["--available-tools", "none"]
        arguments += ["--usage-output-file", str(place.side / _USAGE)]
        if call.model:
            arguments += ["--model", call.model]
        quiet = {"COPILOT_AUTO_UPDATE": "false", "XDG_CACHE_HOME": str(place.owner.cache)}
        # With another provider than GitHub, nothing is asked of GitHub.
        server = {"COPILOT_PROVIDER_BASE_URL": url, "COPILOT_OFFLINE": "true"} if url else {}
        return ProgramArguments(arguments, call.whole, {**quiet, **server})

    def read(self, out: str, place: Place) -> ProgramReply:
        """All messages of the assistant, joined."""
        said: list[str] = []
        problem = tool = ""
        for event in json_lines(out):
            match event:
                case {"type": "assistant.message", "data": {"content": str(text)}} | {
                    "type": "assistant.message",
                    "content": str(text),
                }:
                    said.append(text)
                case {"type": str(kind)} if kind.startswith("tool."):
                    tool = kind
                case {"type": "session.error" | "error", "data": {"message": str(text)}} | {
                    "type": "session.error" | "error",
                    "message": str(text),
                }:
                    problem = text
                case _:
                    pass
        return ProgramReply("".join(said) if said else None, _usage(place), problem, tool)


def _log_in(place: Place) -> None:
    config = _read_json(place.owner.folder / "config.json")
    if isinstance(config, dict):
        kept = {key: value for key, value in config.items() if key in _LOGIN}
        file = place.folder / "config.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(kept), encoding="utf-8")


def _read_json(file: Path) -> Json:
    try:
        return read_json(_COMMENT.sub("", file.read_text("utf-8")))
    except (OSError, ValueError):
        return None


def _usage(place: Place) -> Usage | None:
    match _read_json(place.side / _USAGE):
        case {"modelMetrics": dict(models)}:
            return sum(map(_tokens, models.values()), Usage()) if models else None
        case _:
            return None


def _tokens(metrics: Json) -> Usage:
    match metrics:
        case {"requests": {"count": int(calls)}, "usage": {**counts}}:
            sent, cached = count(counts.get("inputTokens")), count(counts.get("cacheReadTokens"))
            return Usage(calls, sent, count(counts.get("outputTokens")), min(sent, cached))
        case _:
            return Usage()
