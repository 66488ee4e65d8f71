"""Backend `codex_cli`: OpenAI's program `codex`, in exec mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar, Final, cast

from skillopt.core.chat import Model, Usage
from skillopt.model.cli.dialect import Command, ProgramCall, ProgramReply, events, number
from skillopt.model.cli.home import Place
from skillopt.model.cli.text import TextProgram
from skillopt.model.provider import Json, ModelSettings, Transport

_HARMLESS = {"agent_message", "reasoning", "error", "todo_list"}
"""Items of a turn that touch nothing."""


_PLAIN: Final = "You answer with text. You have no tools."
"""Stands in for the program's own instructions, which make it a coding agent."""
_OFF: Final = {
    f"features.{name}": False
    for name in (
        "apps", "enable_request_compression", "goals", "hooks", "image_generation", "memories",
        "multi_agent", "plugins", "shell_tool", "skill_search", "sleep_tool", "tool_suggest",
        "unbounded_connection_retries", "unified_exec", "view_image",
    )
}  # fmt: skip
_SETTINGS: Final[Mapping[str, object]] = {
    **_OFF,
    "approval_policy": "never",
    "web_search": "disabled",
    "tools.experimental_request_user_input": {"enabled": False},
    "project_doc_max_bytes": 0,
    "skills.include_instructions": False,
    "include_permissions_instructions": False,
    "include_environment_context": False,
    "include_apps_instructions": False,
    "analytics.enabled": False,
}
_PROVIDER: Final = "skillopt"


class CodexCli:
    """`codex exec`: in a read-only sandbox, with its tools, servers and own words switched off."""

    key_variables: ClassVar[tuple[str, ...]] = ("CODEX_API_KEY",)
    url_variables: ClassVar[tuple[str, ...]] = ("OPENAI_BASE_URL",)
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = True

    backend: ClassVar[str] = "codex_cli"
    program: ClassVar[str] = "codex"
    path_key: ClassVar[str] = "codex_exec_path"
    path_variables: ClassVar[tuple[str, ...]] = ("CODEX_EXEC_PATH", "CODEX_CLI_BIN", "CODEX_PATH")
    key_name: ClassVar[str] = "CODEX_API_KEY"
    server_key_name: ClassVar[str] = "CODEX_API_KEY"
    folder: ClassVar[str] = ".codex"
    folder_variable: ClassVar[str] = "CODEX_HOME"
    variables: ClassVar[tuple[str, ...]] = ("CODEX_API_KEY",)
    efforts: ClassVar[tuple[str, ...]] = ("none", "minimal", "low", "medium", "high", "xhigh")
    login: ClassVar[str] = "run `codex login`, or set CODEX_API_KEY"

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        del http
        return TextProgram.create(settings, cls())

    def credentials(self, asked: ProgramCall) -> tuple[str, ...]:
        """The file of the log-in, and the profile if one is asked for."""
        profile = asked.extra.get("profile")
        chosen = (f"{profile}.config.toml",) if profile else ()
        return chosen if asked.base_url else ("auth.json", *chosen)

    def command(self, asked: ProgramCall, place: Place) -> Command:
        """Everything goes to standard input."""
        instructions = place.side / "instructions.md"
        instructions.write_text(_PLAIN, encoding="utf-8")
        changes: dict[str, object] = {**_SETTINGS, "model_instructions_file": str(instructions)}
        if asked.effort:
            changes["model_reasoning_effort"] = asked.effort
        arguments = ["exec", "--json", "--ephemeral", "--sandbox", "read-only"]
        arguments += ["--skip-git-repo-check", "--color", "never", "--cd", str(place.work)]
        if asked.model:
            arguments += ["--model", asked.model]
        profile = asked.extra.get("profile")
        if profile:
            arguments += ["--profile", str(profile)]
        if asked.base_url or not profile:
            changes["model_provider"] = _PROVIDER
            changes[f"model_providers.{_PROVIDER}"] = _provider(asked)
        for key, value in changes.items():
            arguments += ["-c", f"{key}={_toml(value)}"]
        return Command([*arguments, "-"], asked.whole)

    def read(self, out: str, place: Place) -> ProgramReply:
        """The last message of the agent; the turn must have been completed."""
        del place
        text: str | None = None
        usage: Usage | None = None
        problem = tool = ""
        for event in events(out):
            match event:
                case {
                    "type": "item.completed",
                    "item": {"type": "agent_message", "text": str(said)},
                }:
                    text = said
                case {"type": "item.started" | "item.completed", "item": {"type": str(kind)}} if (
                    kind not in _HARMLESS
                ):
                    tool = kind
                case {"type": "turn.completed", **rest}:
                    usage, problem, text = _usage(rest.get("usage")), "", text or ""
                case {"type": "turn.failed", "error": {"message": str(said)}} | {
                    "type": "error",
                    "message": str(said),
                }:
                    problem = said
                case _:
                    pass
        return ProgramReply(text, usage, problem, tool)


def _provider(asked: ProgramCall) -> dict[str, object]:
    """OpenAI as the program knows it, but without retries of its own, which take a while."""
    provider: dict[str, object] = {
        "name": "OpenAI",
        "wire_api": "responses",
        "supports_websockets": False,
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    if asked.base_url:
        provider["base_url"] = asked.base_url
    if asked.keyed:
        provider["env_key"] = "CODEX_API_KEY"
    elif not asked.base_url:
        provider["requires_openai_auth"] = True
    return provider


def _toml(value: object) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in table.items()) + "}"
    return json.dumps(value)


def _usage(counts: Json) -> Usage | None:
    match counts:
        case {"input_tokens": int(sent), "output_tokens": int(written), **rest}:
            return Usage(1, sent, written, min(sent, number(rest.get("cached_input_tokens"))))
        case _:
            return None
