"""A model for real agents that knows the rules of the simulated office from an opened skill."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from support_agents import AgentFacts

from skillopt.testing.model_server import ReceivedRequest
from skillopt.testing.simulator import SimulatedTarget
from skillopt.testing.wires import Act, Json, Say

_TASK = re.compile(r"<task>\n(.*?)</task>", re.DOTALL)
_NUMBERED = re.compile(r"^ *\d+(?:\t|→)", re.MULTILINE)
_OPENED = "name: skillopt-target"


def office_worker(facts: AgentFacts) -> Callable[[ReceivedRequest], Act]:
    """Opens the skill file with a tool of the program; then answers as far as its rules go."""
    target = SimulatedTarget(noise=0.0)

    def act(asked: ReceivedRequest) -> Act:
        texts = list(texts_in(asked.body))
        task = next((found[1] for text in texts if (found := _TASK.search(text))), "")
        if not asked.tools or not task:
            return Say("OK")
        opened = [text for text in texts if _OPENED in text and "<task>" not in text]
        if not opened and not _called(asked):
            return facts.reads
        skill = _NUMBERED.sub("", opened[-1]) if opened else ""
        return Say(target.answer(f"## Skill\n\n{skill}", task))

    return act


def _called(asked: ReceivedRequest) -> bool:
    marks = ("function_call_output", "tool_result", '"role": "tool"', "functionResponse")
    return any(mark in asked.text for mark in marks)


def texts_in(value: Json) -> Iterator[str]:
    """All texts of a JSON value, in order."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from texts_in(each)
        case dict():
            for each in value.values():
                yield from texts_in(each)
        case _:
            pass
