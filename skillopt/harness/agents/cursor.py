"""Agent `cursor_exec`: the program `cursor-agent`, written from its documentation alone.

It is in no package registry and asks servers of its vendor only, so it was tried with a stand-in
that keeps to what its documentation says. It needs the network and a key of Cursor's, which it
sees; what it spends there is not known and not paid from the budget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from skillopt.core.intake import Json
from skillopt.errors import ConfigError
from skillopt.harness.agents.base import (
    WORK,
    AgentCall,
    AgentHarness,
    AgentLaunch,
    AgentReport,
    Transcript,
)
from skillopt.harness.places import PLACES


class CursorExec(AgentHarness):
    """`cursor-agent -p`: with its own sandbox only if asked for."""

    uses_model = False
    name = "cursor_exec"
    program = "cursor-agent"
    path_variables = ("CURSOR_EXEC_PATH",)
    install = "see cursor.com/docs/cli"
    backend = "openai_chat"  # it is never asked
    place = PLACES["cursor"]
    folder = ".cursor"

    def launch(self, call: AgentCall) -> AgentLaunch:
        key = self.context.secret("CURSOR_API_KEY")
        if key is None:
            raise ConfigError("cursor_exec needs a key: set CURSOR_API_KEY")
        if not call.network:
            raise ConfigError(
                "cursor_exec asks the servers of Cursor; allow it the network with env.network: "
                "true"
            )
        arguments = ["-p", "--output-format", "stream-json", "--trust", "--workspace", WORK]
        arguments += ["--sandbox", call.option("sandbox") or "disabled", "--force"]
        arguments += ["--model", call.model, call.prompt]
        return AgentLaunch(arguments, {"CURSOR_API_KEY": key})

    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        """As claude's, except for tools, which have events of their own."""
        told = Transcript()
        answer: str | None = None
        problem = ""
        for event in events:
            match event:
                case {"type": "assistant", "message": {"content": list(blocks)}}:
                    told.say("".join(map(_text, blocks)))
                case {
                    "type": "tool_call",
                    "subtype": "completed",
                    "call_id": str(number),
                    "tool_call": {**tools},
                }:
                    for tool, call in tools.items():
                        _tell(told, number, tool, call)
                case {"type": "result", "is_error": True, **rest}:
                    problem = str(rest.get("result") or rest.get("subtype"))
                case {"type": "result", "result": str(text)}:
                    answer = text
                case _:
                    pass
        return told.report(answer, problem)


def _text(block: Json) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return ""


def _tell(told: Transcript, number: str, tool: str, call: Json) -> None:
    match call:
        case {"args": arguments, **rest}:
            told.call(number, tool, arguments)
            told.result(number, json.dumps(rest.get("result"), ensure_ascii=False))
        case _:
            pass
