"""What was put to the gate, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillopt.core.events import Decision, EpochClosed, Fact, MetaReflected, Pruned, Stepped


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate that met the gate."""

    move: str
    decision: Decision
    edits: int | None
    """Changes it consists of; None for guidance, which is one text."""

    @property
    def action(self) -> str:
        """What became of it."""
        return self.decision.action


def tried(facts: Iterable[Fact]) -> list[Tried]:
    """Every candidate that met the gate, oldest first."""
    found: list[Tried] = []
    for fact in facts:
        match fact:
            case Stepped(decision=Decision() as met) | MetaReflected(decision=Decision() as met):
                edits = sum(each.applied for each in fact.draft.report)
                found.append(Tried(fact.move, met, edits))
            case Pruned(decision=Decision() as met):
                found.append(Tried(fact.move, met, len(fact.cut.rules)))
            case EpochClosed(decision=Decision() as met):
                found.append(Tried(met.candidate.origin, met, None))
            case _:
                pass
    return found
