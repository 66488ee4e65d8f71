"""The default optimizer: reflect, merge, select, update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skillopt.core.costs import PartCost, StepSize, cost_of
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
    Selection,
)
from skillopt.core.rollout import Batches, Rollout
from skillopt.core.skill import Skill
from skillopt.optimizer.learning_rate import Fixed
from skillopt.optimizer.parts import Evidence, Merger, RateControl, Selector, Update, UpdateMode
from skillopt.optimizer.reflect import proposer_cost, proposer_size
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.selection import RepeatFilter
from skillopt.optimizer.vary import Vary, deal


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A chain of parts; replace any of them."""

    reflect: Proposer
    merge: Merger
    rate: RateControl = field(default_factory=Fixed)
    select: Selector
    update: UpdateMode
    annotate: Reminders | None = None
    """None: reminders are not kept."""
    vary: Vary | None = None
    """None: one candidate."""

    async def propose(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> Draft:
        draft, _ = await self.draft(skill, batches, memory, budget=budget)
        return draft

    async def draft(
        self,
        skill: Skill,
        batches: Batches,
        memory: Memory,
        *,
        budget: int | None,
        goes_on: bool = False,
    ) -> tuple[Draft, tuple[Rollout, ...]]:
        """The proposals as a draft, and how tasks went with them as far as that was tried.

        If it `goes_on`, all of these tasks will be tried with them.
        """
        choice = await self._choose(skill, batches, memory, budget, goes_on=goes_on)
        reminders = await self.annotate(skill, choice.findings, memory) if self.annotate else None
        selections = [(BUNDLE, choice.chosen)]
        if self.vary is not None and choice.chosen.proposals:

            async def again(seed: int) -> Selection:
                dealt = deal(batches, seed)
                other = await self._choose(skill, dealt, memory, choice.budget, rated=True)
                # Its places are those in a set of its own, which nobody keeps.
                return replace(other.chosen, indices=None)

            selections += await self.vary(choice.chosen, choice.merged, again)
        candidates = tuple(
            [
                await self._candidate(skill, memory, name, chosen, reminders)
                for name, chosen in selections
            ]
        )
        draft = Draft(
            budget=choice.budget,
            rate=choice.rate,
            findings=choice.findings,
            merged=choice.merged,
            repeats=choice.repeats,
            candidates=candidates,
            reminders=reminders,
        )
        return draft, choice.tried

    async def _choose(
        self,
        skill: Skill,
        batches: Batches,
        memory: Memory,
        budget: int | None,
        *,
        rated: bool = False,
        goes_on: bool = False,
    ) -> _Choice:
        """From attempts to chosen proposals; a budget that is rated is not thought about again."""
        repeat_filter = RepeatFilter.of(memory)
        findings = await self.reflect(skill, batches, memory, budget=budget)
        merged = await self.merge(skill, repeat_filter.findings(findings), memory)
        merged = repeat_filter.bundle(merged)
        rate = None
        if merged.proposals and not rated:
            rate = await self.rate(skill, batches, merged, memory, scheduled=budget)
        if rate is not None:
            budget = rate.value
        rollouts = [rollout for batch in batches async for rollout in batch]
        evidence = Evidence(findings, rollouts, goes_on)
        chosen = await self.select(skill, merged, memory, budget=budget, evidence=evidence)
        repeats = tuple(repeat_filter.held)
        tried, chosen = chosen.tried, replace(chosen, tried=())
        return _Choice(findings, merged, rate, budget, chosen, repeats, tried)

    async def _candidate(
        self,
        skill: Skill,
        memory: Memory,
        name: str,
        chosen: Selection,
        reminders: ReminderUpdate | None,
    ) -> Candidate:
        done = await self.update(skill, chosen, memory) if chosen.proposals else Update(None)
        written = skill if done.skill is None else done.skill
        candidate = written.with_notes(reminders.after) if reminders else written
        return Candidate(
            name=name,
            chosen=chosen,
            report=done.report,
            rewritten=done.rewritten,
            skill=None if done.skill is None and candidate == skill else candidate,
        )

    def used(self, size: StepSize) -> int:
        """Proposals that become part of a candidate, at most."""
        most = getattr(self.rate, "most", None)
        return size.allowed if most is None else most(size.allowed)

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        """What all parts ask in a step."""
        size = replace(proposer_size(self.reflect, size), used=self.used(size))
        choosing = [*proposer_cost(self.reflect, size), *cost_of(self.merge, size)]
        if size.budget != 0:
            choosing += [*cost_of(self.rate, size), *cost_of(self.select, size)]
        yield from choosing
        for _ in range(self.vary.redone if self.vary else 0):
            yield from (cost.perhaps() for cost in choosing)
        if size.budget != 0:
            candidates = self.vary.most + 1 if self.vary else 1
            yield from (cost.times(candidates) for cost in cost_of(self.update, size))
            yield from cost_of(self.annotate, size)


class _Choice(NamedTuple):
    """What was chosen, and the way there."""

    findings: tuple[Finding, ...]
    merged: ProposalSet
    rate: Rate | None
    budget: int | None
    chosen: Selection
    repeats: tuple[Proposal, ...]
    tried: tuple[Rollout, ...]
