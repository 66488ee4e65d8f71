"""Selection by trying: each proposal alone, on a few of the tasks it is meant for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt.aio import map_all
from skillopt.core.edits import Delete, apply_edits
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Keeps what repairs most, at most one proposal per pattern. Asks no optimizer.

    Each proposal is tried alone and, where it repairs little, once more without the lines that are
    proposed for deletion: a rule that contradicts a line shows its worth only when that line is
    gone. Then they are put together one by one, and one that breaks what others repair stays out.
    """

    attempt: Try
    journal: Journal
    tasks: int = 4

    async def __call__(
        self, skill: Skill, merged: Bundle, memory: Memory, *, budget: int
    ) -> Selection:
        """At most `budget` proposals, those that repaired most first."""
        if budget == 0 or not merged.proposals:
            return Selection()
        rejected = {edit for entry in memory.steps for edit in entry.rejected}
        fresh = [n for n, each in enumerate(merged.proposals) if each.edit not in rejected]
        with self.journal.phase("trial") as progress:
            court = _Court(self, progress, merged.proposals)
            repaired = await court.repaired(skill, fresh)
            deletions = [n for n in fresh if court.deletes(n)]
            if deletions:
                weak = [n for n in fresh if n not in deletions and not court.whole(n, repaired)]
                late = await court.repaired(court.apply(skill, deletions), weak)
                deletions = deletions if late else [n for n in deletions if n in repaired]
                repaired = {
                    n: max(repaired.get(n, 0), late.get(n, 0)) for n in {**repaired, **late}
                }
            kept = await court.together(skill, deletions, repaired, budget)
        told = "; ".join(f"{n}: repaired {count}" for n, count in sorted(repaired.items()))
        return Selection(
            tuple(merged.proposals[n] for n in kept),
            f"tried on their own tasks: {told or 'nothing repaired one'}",
            tuple(kept),
        )


@dataclass(frozen=True, slots=True)
class _Court:
    """One trial under way; proposals go by their number."""

    trial: Trial
    progress: Phase
    proposals: Sequence[Proposal]

    async def repaired(self, skill: Skill, numbers: Sequence[int]) -> dict[int, int]:
        """How many of its tasks each proposal repairs on top of this skill; none is left out."""

        async def one(number: int) -> int:
            return await self._try(skill, number)

        counts = await map_all(one, numbers)
        return {number: count for number, count in zip(numbers, counts, strict=True) if count}

    async def together(
        self, skill: Skill, deletions: Sequence[int], repaired: Mapping[int, int], budget: int
    ) -> list[int]:
        """Build up from the deletions; each pattern's best proposal that breaks nothing joins."""
        kept = list(deletions)[:budget]
        probes: list[str] = []
        order = sorted(repaired, key=lambda n: (-repaired[n], n))
        settled = {self.proposals[n].why for n in kept}
        for number in order:
            proposal = self.proposals[number]
            if proposal.why in settled or len(kept) >= budget:
                continue
            asked = [*probes, proposal.tasks[0]]
            changed = self.apply(skill, [*kept, number])
            if _passed(await self.trial.attempt(changed, asked)) == len(asked):
                kept.append(number)
                probes = asked
                settled.add(proposal.why)
        return kept if probes or set(kept) & set(repaired) else []

    def deletes(self, number: int) -> bool:
        """Whether a proposal only takes away."""
        return isinstance(self.proposals[number].edit, Delete)

    def whole(self, number: int, repaired: Mapping[int, int]) -> bool:
        """Whether a proposal repaired everything that it was tried on."""
        tried = min(self.trial.tasks, len(self.proposals[number].tasks))
        return repaired.get(number, 0) >= tried

    def apply(self, skill: Skill, numbers: Sequence[int]) -> Skill:
        """The skill with these proposals."""
        return apply_edits(skill, [self.proposals[n].edit for n in numbers], forgiving).skill

    async def _try(self, skill: Skill, number: int) -> int:
        changed = self.apply(skill, [number])
        if changed.digest == skill.digest:
            self.progress.tick("failed")
            return 0
        tasks = self.proposals[number].tasks
        fixed = _passed(await self.trial.attempt(changed, tasks[:1]))
        # What does not repair its first task is seldom worth a second look.
        if fixed:
            fixed += _passed(await self.trial.attempt(changed, tasks[1 : self.trial.tasks]))
        self.progress.tick()
        return fixed


def _passed(rollouts: Sequence[Rollout]) -> int:
    return sum(isinstance(each.outcome, Score) and each.outcome.passed for each in rollouts)
