"""The skills that a run has made, and the decisions about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from skillopt.core.edits import Append, Delete, InsertAfter, Replace
from skillopt.core.events import (
    Begun,
    Decided,
    Decision,
    EpochClosed,
    Fact,
    MetaReflected,
    Pruned,
    Stepped,
)
from skillopt.core.proposal import Draft
from skillopt.core.skill import Skill

_WIDE = 60
"""Characters of a gist."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate that met the gate."""

    move: str
    decision: Decision
    edits: int | None
    """Changes it consists of; None for guidance, which is one text."""
    gist: str
    """How the first of them begins, on one line."""

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
                found.append(Tried(fact.move, met, edits, _gist(fact.draft)))
            case Pruned(decision=Decision() as met):
                gone = f"without {fact.cut.rules[0].text}" if fact.cut.rules else ""
                found.append(Tried(fact.move, met, len(fact.cut.rules), _short(gone)))
            case EpochClosed(decision=Decision() as met):
                told = _short(met.candidate.skill.guidance)
                found.append(Tried(met.candidate.origin, met, None, told))
            case _:
                pass
    return found


def skills_in(facts: Sequence[Fact]) -> Iterator[tuple[Skill, str]]:
    """Every skill in a record with what to call it; those that met a gate come first.

    `the initial skill`, `step_0003 (rejected)`, `step_0003, only 2 (not put to the gate)`.
    """
    for fact in facts:
        if isinstance(fact, Begun):
            yield fact.initial.skill, "the initial skill"
        elif isinstance(fact, Decided) and (met := fact.decision) is not None:
            verdict = "accepted" if met.accepted else "rejected"
            yield met.candidate.skill, f"{met.candidate.origin} ({verdict})"
    for fact in facts:
        if isinstance(fact, Stepped | MetaReflected):
            for take in fact.draft.takes if fact.decision is None else fact.draft.others:
                if take.skill is not None:
                    yield take.skill, f"{fact.move}, {take.name} (not put to the gate)"


def _gist(draft: Draft) -> str:
    if draft.rewritten is not None:
        return _short(draft.rewritten.title)
    for each in draft.report:
        match each.edit:
            case Delete(target) if each.applied:
                return _short(f"without {target}")
            case Append(content) | InsertAfter(_, content) | Replace(_, content) if each.applied:
                return _short(content)
            case _:
                pass
    return ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 3].rstrip()}..."
