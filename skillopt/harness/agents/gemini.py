"""Agent `gemini_exec`: Google's program `gemini`, with a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from skillopt.core.intake import Json
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

_SETTINGS: Final[Json] = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        "disableAutoUpdate": True,
        "disableUpdateNag": True,
        "maxAttempts": 1,  # whatever may pass is repeated at the other end of the door
        "retryFetchErrors": False,
    },
    "model": {"disableLoopDetection": True},
}


class GeminiExec(AgentHarness):
    """`gemini -p`: it may do everything, for the sandbox limits it."""

    name = "gemini_exec"
    program = "gemini"
    path_variables = ("GEMINI_EXEC_PATH",)
    install = "npm install -g @google/gemini-cli"
    backend = "gemini_chat"
    place = PLACES["gemini"]
    folder = ".gemini"

    def launch(self, call: AgentCall) -> AgentLaunch:
        variables = {
            "GOOGLE_GEMINI_BASE_URL": DOOR,
            "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        arguments = ["-p", call.prompt, "--output-format", "stream-json"]
        arguments += ["--approval-mode", "yolo", "-m", call.model]
        return AgentLaunch(arguments, variables, {".gemini/settings.json": json.dumps(_SETTINGS)})

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        told = Transcript()
        answer: str | None = None
        problem = said = ""
        for event in events:
            match event:
                case {"type": "message", "role": "assistant", "content": str(text)}:
                    said += text  # piece by piece
                case {"type": "tool_use", "tool_id": str(number), "tool_name": str(tool), **rest}:
                    told.say(said)
                    said = ""
                    told.call(number, tool, rest.get("parameters"))
                case {"type": "tool_result", "tool_id": str(number), **rest}:
                    told.result(number, str(rest.get("output") or rest.get("error") or ""))
                case {"type": "error", "message": str(text)} if event.get("severity") != "warning":
                    problem = text
                case {"type": "result", "status": "success"}:
                    answer = said
                case {"type": "result", "error": {"message": str(text)}}:
                    problem = text
                case _:
                    pass
        told.say(said)
        return told.report(answer, problem)
