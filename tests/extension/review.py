"""A part of somebody else's: a person reviews the skill and corrects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillopt.core.edits import Append
from skillopt.core.events import Decision, Fact
from skillopt.core.memory import MemoryEntry


@dataclass(frozen=True, slots=True)
class Remark:
    line: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed(Fact):
    """A person has read the skill."""

    reviewer: str
    remarks: tuple[Remark, ...] = ()
    added: tuple[Append, ...] = ()
    type: Literal["reviewed"] = "reviewed"

    @property
    def memory(self) -> MemoryEntry:
        return MemoryEntry(step=self.step, epoch=self.epoch, action="review", kind="review")

    @property
    def changes(self) -> tuple[Append, ...]:
        return self.added


def review(remarks: tuple[Remark, ...], rule: Append, decision: Decision) -> Reviewed:
    return Reviewed(
        move="review_epoch_01",
        step=2,
        epoch=1,
        decision=decision,
        reviewer="Ann",
        remarks=remarks,
        added=(rule,),
    )
