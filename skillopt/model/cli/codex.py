"""Backend `codex_cli`: OpenAI's program `codex`, in exec mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from skillopt.core.chat import Usage
from skillopt.core.intake import Json, json_lines
from skillopt.model.cli.process import Place
from skillopt.model.cli.program import (
    PLAIN,
    Program,
    ProgramArguments,
    ProgramCall,
    ProgramReply,
)
from skillopt.model.wire import count

_HARMLESS: Final = {"agent_message", "reasoning", "error", "todo_list"}
"""Items of a turn that touch nothing."""

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


class CodexCli(Program):
    """`codex exec`: in a read-only sandbox, with its tools, servers and own words switched off."""

    key_variables = ("CODEX_API_KEY",)
    url_variables = ("OPENAI_BASE_URL",)
    takes_shared_effort = True

    backend = "codex_cli"
    program = "codex"
    path_key = "codex_exec_path"
    path_variables = ("CODEX_EXEC_PATH", "CODEX_CLI_BIN", "CODEX_PATH")
    key_name = "CODEX_API_KEY"
    folder = ".codex"
    folder_variable = "CODEX_HOME"
    variables = ("CODEX_API_KEY",)
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh")
    login = "run `codex login`, or set CODEX_API_KEY"

    def credentials(self, call: ProgramCall) -> tuple[str, ...]:
        """The file of the log-in, and the profile if one is asked for."""
        profile = call.settings.extra.get("profile")
        chosen = (f"{profile}.config.toml",) if profile else ()
        return chosen if call.settings.base_url else ("auth.json", *chosen)

    def command(self, call: ProgramCall, place: Place) -> ProgramArguments:
        """Everything goes to standard input."""
        instructions = place.side / "instructions.md"
        instructions.write_text(PLAIN, encoding="utf-8")
        changes: dict[str, object] = {**_SETTINGS, "model_instructions_file": str(instructions)}
        if call.settings.effort:
            changes["model_reasoning_effort"] = call.settings.effort
        arguments = ["exec", "--json", "--ephemeral", "--sandbox", "read-only"]
        arguments += ["--skip-git-repo-check", "--color", "never", "--cd", str(place.work)]
        if call.model:
            arguments += ["--model", call.model]
        profile = call.settings.extra.get("profile")
        if profile:
            arguments += ["--profile", str(profile)]
        if call.settings.base_url or not profile:
            changes["model_provider"] = _PROVIDER
            changes[f"model_providers.{_PROVIDER}"] = _provider(call)
        for key, value in changes.items():
            arguments += ["-c", f"{key}={_toml(value)}"]
        return ProgramArguments([*arguments, "-"], call.whole)

    def read(self, out: str, place: Place) -> ProgramReply:
        """The last message of the agent; the turn must have been completed."""
        del place
        text: str | None = None
        usage: Usage | None = None
        problem = tool = ""
        for event in json_lines(out):
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


def _provider(call: ProgramCall) -> dict[str, object]:
    """OpenAI as the program knows it, but without retries of its own, which take a while."""
    provider: dict[str, object] = {
        "name": "OpenAI",
        "wire_api": "responses",
        "supports_websockets": False,
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    if call.settings.base_url:
        provider["base_url"] = call.settings.base_url
    if call.keyed:
        provider["env_key"] = "CODEX_API_KEY"
    elif not call.settings.base_url:
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
            return Usage(1, sent, written, min(sent, count(rest.get("cached_input_tokens"))))
        case _:
            return None
