"""The default optimizer: reflect, aggregate, select, update."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from skillopt.core.edits import Placement
from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import (
    Appendix,
    Bundle,
    Draft,
    Finding,
    Rate,
    Rewritten,
    Selection,
)
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.optimizer.repeats import Sieve


class Aggregating(Protocol):
    """Findings to one bundle."""

    async def __call__(self, skill: Skill, findings: Sequence[Finding], memory: Memory) -> Bundle:
        """Merge."""
        ...


class Rating(Protocol):
    """How many of the merged proposals a step may use."""

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        merged: Bundle,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate:
        """Decide."""
        ...


class Selecting(Protocol):
    """The best proposals within a budget."""

    async def __call__(
        self, skill: Skill, merged: Bundle, memory: Memory, *, budget: int | None
    ) -> Selection:
        """Choose; without a budget, all of them."""
        ...


class Update(NamedTuple):
    """What the chosen proposals made of the skill; None where nothing usable came of them."""

    skill: Skill | None
    report: tuple[Placement, ...] = ()
    rewritten: Rewritten | None = None


class Updating(Protocol):
    """Chosen proposals to a candidate."""

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        """Write the candidate."""
        ...


class Annotating(Protocol):
    """The reminders that a candidate carries."""

    async def __call__(self, skill: Skill, findings: Sequence[Finding], memory: Memory) -> Appendix:
        """Gather."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A chain of stages; replace any of them."""

    reflect: Proposer
    aggregate: Aggregating
    rate: Rating | None = None
    """None: the schedule decides."""
    select: Selecting
    update: Updating
    annotate: Annotating | None = None
    """None: reminders are not kept."""

    async def propose(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> Draft:
        """Run the stages in order."""
        sieve = Sieve.of(memory)
        findings = await self.reflect(skill, batches, memory, budget=budget)
        merged = await self.aggregate(skill, sieve.findings(findings), memory)
        merged = sieve.bundle(merged)
        rate = None
        if self.rate is not None and merged.proposals:
            rate = await self.rate(skill, batches, merged, memory, scheduled=budget)
            budget = rate.value
        chosen = await self.select(skill, merged, memory, budget=budget)
        done = await self.update(skill, chosen, memory) if chosen.proposals else Update(None)
        appendix = await self.annotate(skill, findings, memory) if self.annotate else None
        written = skill if done.skill is None else done.skill
        candidate = written.with_notes(appendix.after) if appendix else written
        return Draft(
            budget=budget,
            rate=rate,
            findings=findings,
            merged=merged,
            chosen=chosen,
            report=done.report,
            rewritten=done.rewritten,
            skill=None if done.skill is None and candidate == skill else candidate,
            repeats=tuple(sieve.held),
            appendix=appendix,
        )
