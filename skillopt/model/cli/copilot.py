"""Backend `copilot_chat`: GitHub's program `copilot`, one prompt at a time."""

from __future__ import annotations

import json
import re
from typing import ClassVar, Final, cast

from skillopt.core.chat import Model, Usage
from skillopt.model.cli.dialect import Command, ProgramCall, ProgramReply, events, number
from skillopt.model.cli.home import Place
from skillopt.model.cli.text import TextProgram
from skillopt.model.provider import Json, ModelSettings, Transport

_USAGE: Final = "usage.json"
_LOGIN: Final = {
    "copilotTokens", "copilot_tokens", "loggedInUsers", "logged_in_users", "lastLoggedInUser",
    "last_logged_in_user",
}  # fmt: skip
"""Keys of the program's `config.json` that say who is logged in; it holds other things too."""
_COMMENT: Final = re.compile(r"(?m)^\s*//.*$")


class CopilotChat:
    """`copilot` with a prompt on standard input: no tools, no servers, no custom instructions."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ("COPILOT_PROVIDER_BASE_URL",)
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = False

    backend: ClassVar[str] = "copilot_chat"
    program: ClassVar[str] = "copilot"
    path_key: ClassVar[str] = "copilot_exec_path"
    path_variables: ClassVar[tuple[str, ...]] = ("COPILOT_EXEC_PATH",)
    key_name: ClassVar[str] = "COPILOT_GITHUB_TOKEN"
    server_key_name: ClassVar[str] = "COPILOT_PROVIDER_API_KEY"
    folder: ClassVar[str] = ".copilot"
    folder_variable: ClassVar[str] = "COPILOT_HOME"
    variables: ClassVar[tuple[str, ...]] = (
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_WIRE_API",
    )
    efforts: ClassVar[tuple[str, ...]] = ()
    login: ClassVar[str] = "run `copilot` once and log in, or set COPILOT_GITHUB_TOKEN"

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        del http
        return TextProgram.create(settings, cls())

    def credentials(self, asked: ProgramCall) -> tuple[str, ...]:
        """None as it is: the file of the log-in holds settings too."""
        del asked
        return ()

    def command(self, asked: ProgramCall, place: Place) -> Command:
        """Everything goes to standard input."""
        if not asked.base_url:
            _log_in(place)
        arguments = ["--output-format", "json", "--stream", "off", "--no-color"]
        arguments += ["--log-level", "none", "--disable-builtin-mcps", "--no-custom-instructions"]
        # A tool that does not exist: an empty list would switch nothing off.
        arguments += ["--available-tools", "none"]
        arguments += ["--usage-output-file", str(place.side / _USAGE)]
        if asked.model:
            arguments += ["--model", asked.model]
        quiet = {"COPILOT_AUTO_UPDATE": "false", "XDG_CACHE_HOME": str(place.owner.cache)}
        return Command(arguments, asked.whole, {**quiet, **_server(asked)})

    def read(self, out: str, place: Place) -> ProgramReply:
        """All messages of the assistant, joined."""
        said: list[str] = []
        problem = tool = ""
        for event in events(out):
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


def _server(asked: ProgramCall) -> dict[str, str]:
    """Another provider than GitHub; nothing is then asked of GitHub."""
    if not asked.base_url:
        return {}
    return {"COPILOT_PROVIDER_BASE_URL": asked.base_url, "COPILOT_OFFLINE": "true"}


def _log_in(place: Place) -> None:
    try:
        text = (place.owner.folder / "config.json").read_text("utf-8")
        found: object = json.loads(_COMMENT.sub("", text))
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(found, dict):
        config = cast("dict[str, object]", found)
        kept = {key: value for key, value in config.items() if key in _LOGIN}
        file = place.folder / "config.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(kept), encoding="utf-8")


def _usage(place: Place) -> Usage | None:
    try:
        found = cast("Json", json.loads((place.side / _USAGE).read_text("utf-8")))
    except (OSError, ValueError, RecursionError):
        return None
    match found:
        case {"modelMetrics": dict(models)}:
            return sum(map(_tokens, models.values()), Usage()) if models else None
        case _:
            return None


def _tokens(metrics: Json) -> Usage:
    match metrics:
        case {"requests": {"count": int(calls)}, "usage": {**counts}}:
            sent, cached = number(counts.get("inputTokens")), number(counts.get("cacheReadTokens"))
            return Usage(calls, sent, number(counts.get("outputTokens")), min(sent, cached))
        case _:
            return Usage()
