"""The default optimizer: reflect, aggregate, select, update."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt.core.edits import Applied
from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import Appendix, Bundle, Draft, Finding, Selection
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.optimizer.repeats import Sieve
from skillopt.optimizer.update import Update


class Aggregating(Protocol):
    """Findings to one bundle."""

    async def __call__(self, skill: Skill, findings: Sequence[Finding], memory: Memory) -> Bundle:
        """Merge."""
        ...


class Selecting(Protocol):
    """The best proposals within a budget."""

    async def __call__(
        self, skill: Skill, merged: Bundle, memory: Memory, *, budget: int
    ) -> Selection:
        """Choose."""
        ...


class Annotating(Protocol):
    """The reminders that a candidate carries."""

    async def __call__(self, skill: Skill, findings: Sequence[Finding], memory: Memory) -> Appendix:
        """Gather."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Four stages; replace any of them."""

    reflect: Proposer
    aggregate: Aggregating
    select: Selecting
    update: Update
    annotate: Annotating | None = None
    """None: reminders are not kept."""

    async def propose(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int,
    ) -> Draft:
        """Run the stages in order."""
        sieve = Sieve.of(memory)
        findings = await self.reflect(skill, batches, memory, budget=budget)
        merged = await self.aggregate(skill, sieve.findings(findings), memory)
        merged = sieve.bundle(merged)
        chosen = await self.select(skill, merged, memory, budget=budget)
        applied = self.update(skill, chosen) if chosen.proposals else Applied(skill, ())
        appendix = await self.annotate(skill, findings, memory) if self.annotate else None
        candidate = applied.skill.with_notes(appendix.after) if appendix else applied.skill
        return Draft(
            budget=budget,
            findings=findings,
            merged=merged,
            chosen=chosen,
            report=applied.report,
            skill=candidate if chosen.proposals or candidate != skill else None,
            repeats=tuple(sieve.held),
            appendix=appendix,
        )
