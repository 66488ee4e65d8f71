"""Selection by trying: each proposal alone, on a few of the tasks it is meant for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt.aio import map_all
from skillopt.core.edits import apply_edits
from skillopt.core.journal import Journal, Phase
from skillopt.core.memory import Memory
from skillopt.core.proposal import Bundle, Proposal, Selection
from skillopt.core.rollout import Rollout, Score
from skillopt.core.skill import Skill
from skillopt.optimizer.locate import forgiving


class Try(Protocol):
    """Attempts at training tasks with a skill, from finished work where possible."""

    async def __call__(self, skill: Skill, tasks: Sequence[str]) -> list[Rollout]:
        """One rollout per task, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Tried:
    """A proposal and what it repaired."""

    proposal: Proposal
    fixed: int
    of: int
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Keeps the proposals that repair most, at most one per pattern. Asks no optimizer."""

    attempt: Try
    journal: Journal
    tasks: int = 4

    async def __call__(
        self, skill: Skill, merged: Bundle, memory: Memory, *, budget: int
    ) -> Selection:
        """At most `budget` proposals that repaired at least one task, best first."""
        if budget == 0 or not merged.proposals:
            return Selection()
        rejected = {edit for entry in memory.steps for edit in entry.rejected}
        with self.journal.phase("trial", len(merged.proposals)) as progress:

            async def one(proposal: Proposal) -> Tried:
                tried = await self._try(skill, proposal, progress)
                return Tried(proposal, tried, self.tasks, proposal.edit in rejected)

            tried = await map_all(one, merged.proposals)
        order = sorted(range(len(tried)), key=lambda n: (tried[n].repeated, -tried[n].fixed, n))
        chosen: list[int] = []
        patterns: set[str] = set()
        for index in order:
            each = tried[index]
            if each.fixed and each.proposal.why not in patterns and len(chosen) < budget:
                chosen.append(index)
                patterns.add(each.proposal.why)
        told = "; ".join(f"{index}: repaired {tried[index].fixed}" for index in order)
        kept = tuple(merged.proposals[index] for index in chosen)
        return Selection(kept, f"tried on their own tasks: {told}", tuple(chosen))

    async def _try(self, skill: Skill, proposal: Proposal, progress: Phase) -> int:
        changed = apply_edits(skill, [proposal.edit], forgiving).skill
        if changed.digest == skill.digest:
            progress.tick("failed")
            return 0
        rollouts = await self.attempt(changed, proposal.tasks[: self.tasks])
        progress.tick()
        marks = [each.outcome for each in rollouts]
        return sum(isinstance(mark, Score) and mark.passed for mark in marks)
