"""An update mode of somebody else's: one class in one file, with a setting and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import Append
from skillopt.core.memory import Memory
from skillopt.core.proposal import Selection
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.optimizer.parts import Update
from skillopt.optimizer.update import edits_in


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Writes what is proposed below a heading, whatever was there before."""

    sink: EventSink
    heading: str = "Rules"

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        with self.sink.phase("update", 1):
            edits = [edit for edit in edits_in(chosen.proposals) if isinstance(edit, Append)]
            lines = [f"# {self.heading}", "", *(edit.content for edit in edits)]
            return Update(skill.with_body("\n".join(lines)))

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        yield PartCost("proofreading", Range(0, 7), role="optimizer")
