"""Agent `copilot_exec`: GitHub's program `copilot`, with a provider of our own."""

from __future__ import annotations

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

_VARIABLES: Final = {
    "COPILOT_PROVIDER_BASE_URL": f"{DOOR}/v1",
    "COPILOT_PROVIDER_API_KEY": KEY,
    "COPILOT_PROVIDER_TYPE": "openai",
    "COPILOT_PROVIDER_WIRE_API": "completions",
    "COPILOT_OFFLINE": "true",  # nothing is asked of GitHub
    "COPILOT_AUTO_UPDATE": "false",
}


class CopilotExec(AgentHarness):
    """`copilot -p`: with all tools, unless `copilot_exec_allow_all_tools` is false."""

    name = "copilot_exec"
    program = "copilot"
    path_variables = ("COPILOT_EXEC_PATH",)
    install = "npm install -g @github/copilot"
    backend = "openai_chat"
    place = PLACES["copilot"]
    folder = ".copilot"

    def launch(self, call: AgentCall) -> AgentLaunch:
        arguments = ["-p", call.prompt, "--output-format", "json", "--stream", "off", "--no-color"]
        arguments += ["--log-level", "none", "--disable-builtin-mcps", "--model", call.model]
        if call.options.get("allow_all_tools") is not False:
            arguments.append("--allow-all-tools")
        return AgentLaunch(arguments, {**_VARIABLES, "COPILOT_MODEL": call.model})

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        told = Transcript()
        answer: str | None = None
        problem = last = ""
        for event in events:
            match event:
                case {"type": "assistant.message", "data": {"content": str(text), **rest}}:
                    told.say(text)
                    last = text
                    for request in _list(rest.get("toolRequests")):
                        _call(told, request)
                case {
                    "type": "tool.execution_complete",
                    "data": {"toolCallId": str(number), **rest},
                }:
                    told.result(number, _result(rest))
                case {"type": "session.error" | "error", "data": {"message": str(text)}}:
                    problem = text
                case {"type": "result", "exitCode": 0}:
                    answer = last
                case _:
                    pass
        return told.report(None if problem and not answer else answer, problem)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _call(told: Transcript, request: Json) -> None:
    match request:
        case {"toolCallId": str(number), "name": str(name), **rest}:
            told.call(number, name, rest.get("arguments"))
        case _:
            pass


def _result(data: dict[str, Json]) -> str:
    match data:
        case {"result": {"content": str(text)}} | {"error": {"message": str(text)}}:
            return text
        case _:
            return "" if data.get("success") else "(failed)"
