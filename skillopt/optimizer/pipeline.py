"""The default optimizer: reflect, aggregate, select, update."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from skillopt.core.edits import Placement
from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import (
    BUNDLE,
    Candidate,
    Draft,
    Finding,
    Proposal,
    ProposalSet,
    Rate,
    ReminderUpdate,
    Rewritten,
    Selection,
)
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.optimizer.selection import RepeatFilter
from skillopt.optimizer.vary import Vary, deal


class Aggregating(Protocol):
    """Findings to one bundle."""

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ProposalSet:
        """Merge."""
        ...


class Rating(Protocol):
    """How many of the merged proposals a step may use."""

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate:
        """Decide."""
        ...


class Selecting(Protocol):
    """The best proposals within a budget."""

    async def __call__(
        self, skill: Skill, merged: ProposalSet, memory: Memory, *, budget: int | None
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

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ReminderUpdate:
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

    vary: Vary | None = None
    """None: one candidate."""

    async def propose(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> Draft:
        """Run the stages in order."""
        path = _Path(self, skill, memory)
        found = await path.choose(batches, budget)
        reminders = await self.annotate(skill, found.findings, memory) if self.annotate else None
        first = await path.take(BUNDLE, found.chosen, reminders)
        others: list[Candidate] = []
        if self.vary is not None and found.chosen.proposals:

            async def again(seed: int) -> Selection:
                dealt = await path.choose(deal(batches, seed), found.budget, fixed=True)
                # Its places are those in a bundle of its own, which nobody keeps.
                return replace(dealt.chosen, indices=None)

            varied = await self.vary(found.chosen, found.merged, again)
            others = [await path.take(*each, reminders) for each in varied]
        return Draft(
            budget=found.budget,
            rate=found.rate,
            findings=found.findings,
            merged=found.merged,
            repeats=found.repeats,
            candidates=(first, *others),
            reminders=reminders,
        )


class _Found(NamedTuple):
    """What was chosen, and the way there."""

    findings: tuple[Finding, ...]
    merged: ProposalSet
    rate: Rate | None
    budget: int | None
    chosen: Selection
    repeats: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True)
class _Path:
    """The stages at work on one skill."""

    stages: Pipeline
    skill: Skill
    memory: Memory

    async def choose(
        self,
        batches: Sequence[AsyncIterable[Rollout]],
        budget: int | None,
        *,
        fixed: bool = False,
    ) -> _Found:
        """From attempts to chosen proposals; a fixed budget is not thought about again."""
        stages, skill, memory = self.stages, self.skill, self.memory
        repeat_filter = RepeatFilter.of(memory)
        findings = await stages.reflect(skill, batches, memory, budget=budget)
        merged = await stages.aggregate(skill, repeat_filter.findings(findings), memory)
        merged = repeat_filter.bundle(merged)
        rate = None
        if stages.rate is not None and merged.proposals and not fixed:
            rate = await stages.rate(skill, batches, merged, memory, scheduled=budget)
            budget = rate.value
        chosen = await stages.select(skill, merged, memory, budget=budget)
        return _Found(findings, merged, rate, budget, chosen, tuple(repeat_filter.held))

    async def take(
        self, name: str, chosen: Selection, reminders: ReminderUpdate | None
    ) -> Candidate:
        """From chosen proposals to a candidate."""
        skill = self.skill
        done = Update(None)
        if chosen.proposals:
            done = await self.stages.update(skill, chosen, self.memory)
        written = skill if done.skill is None else done.skill
        candidate = written.with_notes(reminders.after) if reminders else written
        return Candidate(
            name=name,
            chosen=chosen,
            report=done.report,
            rewritten=done.rewritten,
            skill=None if done.skill is None and candidate == skill else candidate,
        )
