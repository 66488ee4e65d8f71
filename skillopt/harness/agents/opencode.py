"""Agent `opencode_exec`: the program `opencode`, in run mode."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from skillopt.core.intake import Json
from skillopt.harness.agents.base import (
    DOOR,
    HOME,
    KEY,
    AgentCall,
    AgentHarness,
    AgentLaunch,
    AgentReport,
    Transcript,
)
from skillopt.harness.places import PLACES

_PROVIDER: Final = "skillopt"
_CONFIG: Final = "opencode.json"
_WINDOW: Final = {"context": 200_000, "output": 32_000}
"""Tokens; opencode shortens a conversation before it gets longer than that."""


class OpencodeExec(AgentHarness):
    """`opencode run`: with a provider of our own and without anything that it would fetch."""

    name = "opencode_exec"
    program = "opencode"
    path_variables = ("OPENCODE_EXEC_PATH",)
    install = "npm install -g opencode-ai"
    backend = "openai_chat"
    place = PLACES["opencode"]
    folder = ".config/opencode"

    def launch(self, call: AgentCall) -> AgentLaunch:
        named = f"{_PROVIDER}/{call.model}"
        model: Json = {"name": call.model, "limit": {**_WINDOW}, "tool_call": True}
        web = "allow" if call.network else "deny"
        config: Json = {
            "model": named,
            "small_model": named,
            "share": "disabled",
            "autoupdate": False,
            "agent": {"title": {"disable": True}},  # else a second call, for a title
            "provider": {
                _PROVIDER: {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": _PROVIDER,
                    "options": {"baseURL": f"{DOOR}/v1", "apiKey": KEY, "maxRetries": 0},
                    "models": {call.model: model},
                }
            },
            "permission": {"edit": "allow", "bash": "allow", "webfetch": web},
        }
        variables = {
            "OPENCODE_CONFIG": f"{HOME}/{_CONFIG}",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        arguments = ["run", "--format", "json", "--model", named, "--", call.prompt]
        return AgentLaunch(arguments, variables, {_CONFIG: json.dumps(config)})

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        told = Transcript()
        answer: str | None = None
        problem = last = ""
        for event in events:
            match event:
                case {"type": "text", "part": {"text": str(text)}}:
                    told.say(text)
                    last = text
                case {
                    "type": "tool_use",
                    "part": {"callID": str(number), "tool": str(tool), **rest},
                }:
                    _tell(told, number, tool, rest.get("state"))
                case {"type": "step_finish", "part": {"reason": str(reason)}}:
                    answer = None if reason == "tool-calls" else last
                case {"type": "error", "error": error}:
                    problem = json.dumps(error)
                case _:
                    pass
        return told.report(None if problem else answer, problem)


def _tell(told: Transcript, number: str, tool: str, state: Json) -> None:
    match state:
        case {"input": given, **rest}:
            told.call(number, tool, given)
            told.result(number, str(rest.get("output") or rest.get("error") or ""))
        case _:
            pass
