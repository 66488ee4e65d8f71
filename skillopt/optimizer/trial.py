"""Selection by trying: each proposal alone, on a few of the tasks it is meant for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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

    Two rounds: each proposal alone; then, for patterns that nothing has repaired in full, once more
    without the lines that are proposed for deletion. A rule that contradicts a line of the skill
    shows its worth only when that line is gone.
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
            alone = await court.best(skill, fresh)
            deletions = [n for n in fresh if court.deletes(n)]
            settled = {n: count for n, count in alone.items() if court.whole(n, count)}
            cleared = dict.fromkeys([*settled, *deletions])
            late = (
                await court.best(court.apply(skill, list(cleared)), court.others(fresh, cleared))
                if deletions
                else {}
            )
        chosen = court.together(alone, cleared, late) if late else [*alone]
        told = "; ".join(f"{n}: repaired {count}" for n, count in {**alone, **late}.items())
        kept = chosen[:budget]
        return Selection(
            tuple(merged.proposals[n] for n in kept),
            f"tried on their own tasks: {told}"
            if told
            else "nothing that was tried repaired a task",
            tuple(kept),
        )


@dataclass(frozen=True, slots=True)
class _Court:
    """One trial under way."""

    trial: Trial
    progress: Phase
    proposals: Sequence[Proposal]

    async def best(self, skill: Skill, numbers: Sequence[int]) -> dict[int, int]:
        """For each pattern, the proposal that repairs most on top of this skill, and how much."""

        async def one(number: int) -> int:
            return await self._try(skill, number)

        repaired = await map_all(one, numbers)
        order = sorted(zip(numbers, repaired, strict=True), key=lambda pair: (-pair[1], pair[0]))
        found: dict[str, tuple[int, int]] = {}
        for number, count in order:
            if count:
                found.setdefault(self.proposals[number].why, (number, count))
        return dict(found.values())

    def deletes(self, number: int) -> bool:
        """Whether a proposal only takes away."""
        return isinstance(self.proposals[number].edit, Delete)

    def whole(self, number: int, repaired: int) -> bool:
        """Whether a proposal repaired everything that it was tried on."""
        return repaired >= min(self.trial.tasks, len(self.proposals[number].tasks))

    def others(self, numbers: Sequence[int], settled: Collection[int]) -> list[int]:
        """The proposals for patterns that are not settled."""
        patterns = {self.proposals[n].why for n in settled}
        return [n for n in numbers if self.proposals[n].why not in patterns]

    def together(
        self, alone: Mapping[int, int], cleared: Iterable[int], late: Mapping[int, int]
    ) -> list[int]:
        """What was settled, and for each other pattern the better of both rounds."""
        found: dict[str, tuple[int, int]] = {}
        for number, count in (*late.items(), *alone.items()):
            known = found.get(self.proposals[number].why)
            if known is None or count > known[1]:
                found[self.proposals[number].why] = number, count
        return list(dict.fromkeys([*cleared, *(number for number, _ in found.values())]))

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
