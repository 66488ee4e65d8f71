"""Agent `qwen_exec`: the program `qwen`, which reports as claude does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from skillopt.core.intake import Json
from skillopt.harness.agents.base import (
    DOOR,
    KEY,
    AgentCall,
    AgentHarness,
    AgentLaunch,
    AgentReport,
)
from skillopt.harness.agents.claude import read_stream
from skillopt.harness.places import PLACES

_FAILED: Final = "[API Error:"
_SETTINGS: Final[Json] = {
    "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "model": {"generationConfig": {"maxRetries": 0, "timeout": 3_600_000}},
}


class QwenExec(AgentHarness):
    """`qwen -p`: it may do everything, for the sandbox limits it."""

    name = "qwen_exec"
    program = "qwen"
    path_variables = ("QWEN_EXEC_PATH",)
    install = "npm install -g @qwen-code/qwen-code"
    backend = "qwen_chat"
    place = PLACES["qwen"]
    folder = ".qwen"

    def launch(self, call: AgentCall) -> AgentLaunch:
        variables = {
            "OPENAI_BASE_URL": f"{DOOR}/v1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_MODEL": call.model,
        }
        arguments = ["-p", call.prompt, "--auth-type", "openai", "--output-format", "stream-json"]
        arguments += ["--approval-mode", "yolo"]
        return AgentLaunch(arguments, variables, {".qwen/settings.json": json.dumps(_SETTINGS)})

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        """A failed call is told as if the model had said it."""
        report = read_stream(events)
        if report.answer is not None and report.answer.startswith(_FAILED):
            return replace(report, answer=None, problem=report.answer)
        return report
