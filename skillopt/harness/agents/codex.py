"""Agent `codex_exec`: OpenAI's program `codex`, in exec mode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from skillopt.core.intake import Json
from skillopt.errors import ConfigError
from skillopt.harness.agents.base import (
    DOOR,
    KEY,
    AgentCall,
    AgentHarness,
    AgentLaunch,
    AgentReport,
    Transcript,
)
from skillopt.harness.places import PLACES

_OFF: Final = {
    f"features.{name}": False
    for name in (
        "apps", "enable_request_compression", "goals", "hooks", "image_generation", "memories",
        "multi_agent", "plugins", "sleep_tool", "tool_suggest", "unbounded_connection_retries",
    )
}  # fmt: skip
_SETTINGS: Final[Mapping[str, Json]] = {
    **_OFF,
    "model_provider": "skillopt",
    "model_providers.skillopt.name": "skillopt",
    "model_providers.skillopt.base_url": f"{DOOR}/v1",
    "model_providers.skillopt.wire_api": "responses",
    "model_providers.skillopt.env_key": "SKILLOPT_KEY",
    "model_providers.skillopt.supports_websockets": False,
    # Whatever may pass is repeated at the other end of the door.
    "model_providers.skillopt.request_max_retries": 0,
    "model_providers.skillopt.stream_max_retries": 0,
    "model_providers.skillopt.stream_idle_timeout_ms": 3_600_000,
    "tools.experimental_request_user_input.enabled": False,
    "include_apps_instructions": False,
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
}


class CodexExec(AgentHarness):
    """`codex exec`, which has a sandbox of its own; inside of ours it needs none."""

    name = "codex_exec"
    program = "codex"
    path_variables = ("CODEX_EXEC_PATH", "CODEX_CLI_BIN", "CODEX_PATH")
    install = "npm install -g @openai/codex"
    backend = "openai_chat"
    backend_settings: ClassVar[Mapping[str, object]] = {"openai_chat_api": "responses"}
    place = PLACES["codex"]
    folder = ".codex"
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh")

    def uses_network(self) -> bool:
        return super().uses_network() or bool(self.context.options.get("network_access"))

    def launch(self, call: AgentCall) -> AgentLaunch:
        settings: dict[str, Json] = {**_SETTINGS, "model": call.model}
        settings["approval_policy"] = call.option("approval_policy") or "never"
        settings["web_search"] = "live" if call.options.get("web_search") else "disabled"
        settings["sandbox_workspace_write.network_access"] = call.network
        if call.effort:
            settings["model_reasoning_effort"] = call.effort
        arguments = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never"]
        arguments += ["--sandbox", call.option("sandbox") or "danger-full-access"]
        home = {".codex/config.toml": _toml(settings)}
        if profile := call.option("profile"):
            arguments += ["--profile", profile]
            home[f".codex/{profile}.config.toml"] = _profile(call, profile)
        for image in call.images:
            arguments += ["--image", image]
        return AgentLaunch([*arguments, "--", call.prompt], {"SKILLOPT_KEY": KEY}, home)

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        told = Transcript()
        answer: str | None = None
        problem = ""
        last = ""
        for event in events:
            match event:
                case {
                    "type": "item.completed",
                    "item": {"type": "agent_message", "text": str(said)},
                }:
                    told.say(said)
                    last = said
                case {"type": "item.completed", "item": {"id": str(number), **item}}:
                    _tell(told, number, item)
                case {"type": "turn.completed"}:
                    answer, problem = last, ""
                case {"type": "turn.failed", "error": {"message": str(said)}} | {
                    "type": "error",
                    "message": str(said),
                }:
                    problem = said
                case _:
                    pass
        return told.report(answer, problem)


def _tell(told: Transcript, number: str, item: Mapping[str, Json]) -> None:
    """A tool and what came of it, which codex tells at once."""
    match item:
        case {"type": "command_execution", "command": str(command), **rest}:
            told.call(number, "shell", {"command": command})
            code = rest.get("exit_code")
            failed = f"\n(exit code {code})" if code else ""
            told.result(number, f"{rest.get('aggregated_output') or ''}{failed}")
        case {"type": "file_change", "changes": changes, **rest}:
            told.call(number, "apply_patch", changes)
            told.result(number, str(rest.get("status", "")))
        case {"type": "mcp_tool_call" | "web_search" as kind, **rest}:
            told.call(number, kind, dict(rest))
            told.result(number, str(rest.get("status", "")))
        case _:
            pass


def _toml(settings: Mapping[str, Json]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())


def _profile(call: AgentCall, name: str) -> str:
    file = call.own_folder / f"{name}.config.toml"
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(
            f"model.codex_exec_profile: {file} cannot be read: {error.strerror}"
        ) from error
