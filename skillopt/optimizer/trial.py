"""Selection by trying: proposals alone, then together, on tasks that they are meant for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from skillopt.optimizer.update import edits_in

EXCHANGES = 5
"""Other combinations that are tried when the first one leaves something broken."""


class Try(Protocol):
    """Attempts at training tasks with a skill, from finished work where possible."""

    async def __call__(self, skill: Skill, tasks: Sequence[str]) -> list[Rollout]:
        """One rollout per task, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Keeps the proposals that repair most together, one per pattern. Asks no optimizer.

    A rule that contradicts a line shows its worth only when that line is gone, so rules are tried
    without the lines that are proposed for deletion; the lines stay if the rules do not need it.
    Rules that are good alone may spoil each other, so the best of each pattern are tried together,
    and exchanged or left out while that repairs more.
    """

    attempt: Try
    journal: Journal
    tasks: int = 4
    """How many tasks of its pattern a proposal is tried on."""

    async def __call__(
        self, skill: Skill, merged: Bundle, memory: Memory, *, budget: int | None
    ) -> Selection:
        """At most `budget` proposals: deletions, then rules, those that repaired most first."""
        if budget == 0 or not merged.proposals:
            return Selection()
        rejected = {edit for entry in memory.steps for edit in entry.rejected}
        fresh = [n for n, each in enumerate(merged.proposals) if each.edit not in rejected]
        with self.journal.phase("trial") as progress:
            court = _Court(self, progress, skill, merged.proposals)
            kept, told = await court.choose(fresh, budget)
        return Selection(tuple(merged.proposals[n] for n in kept), told, tuple(kept))


@dataclass(frozen=True, slots=True)
class _Court:
    """One trial under way; proposals go by their number."""

    trial: Trial
    progress: Phase
    skill: Skill
    proposals: Sequence[Proposal]

    async def choose(self, fresh: Sequence[int], budget: int | None) -> tuple[list[int], str]:
        """The proposals to keep, and what was seen."""
        deletions = [n for n in fresh if isinstance(self.proposals[n].edit, Delete)][:budget]
        patterns: dict[str, list[int]] = {}
        for number in fresh:
            if not isinstance(self.proposals[number].edit, Delete):
                patterns.setdefault(self.proposals[number].why, []).append(number)
        tried = await map_all(lambda rules: self._alone(deletions, rules), list(patterns.values()))
        repaired = {n: count for some in tried for n, count in some.items()}
        if not repaired:
            cleared = await self._alone([], deletions)
            return list(cleared), _told(cleared)
        if not await self._needed(deletions, repaired):
            deletions = []
        rules = await self._together(deletions, list(patterns.values()), repaired, budget)
        return [*deletions, *rules], _told(repaired)

    async def _alone(self, base: Sequence[int], rules: Sequence[int]) -> dict[int, int]:
        """What each rule repairs on top of the base, up to the first that leaves nothing open."""
        repaired: dict[int, int] = {}
        for number in rules:
            tasks = self._tasks(number)
            count = await self._repairs([*base, number], tasks[:1])
            # What does not repair its first task is seldom worth a second look.
            if count:
                count += await self._repairs([*base, number], tasks[1:])
                repaired[number] = count
            self.progress.tick("done" if count else "failed")
            if count == len(tasks):
                break
        return repaired

    async def _needed(self, deletions: Sequence[int], repaired: Mapping[int, int]) -> bool:
        """Whether some rule fails on its first task while the lines still stand."""
        if not deletions:
            return False
        for number in repaired:
            if not await self._repairs([number], self._tasks(number)[:1]):
                return True
        return False

    async def _together(
        self,
        deletions: Sequence[int],
        patterns: Sequence[Sequence[int]],
        repaired: Mapping[int, int],
        budget: int | None,
    ) -> list[int]:
        """Start from the best rule of each pattern; exchange rules while that repairs more."""
        best = [
            max(known, key=lambda n: (repaired[n], -n))
            for rules in patterns
            if (known := [n for n in rules if n in repaired])
        ]
        best.sort(key=lambda n: (-repaired[n], n))
        chosen = best if budget is None else best[: budget - len(deletions)]
        probes = list(dict.fromkeys(task for n in chosen for task in self._tasks(n)))
        passed = await self._passing([*deletions, *chosen], probes)
        left = EXCHANGES
        while left and len(passed) < len(probes):
            for other in self._exchanges(chosen, patterns, passed):
                left -= 1
                now = await self._passing([*deletions, *other], probes)
                if len(now) > len(passed):
                    chosen, passed = other, now
                    break
                if not left:
                    break
            else:
                break
        return chosen

    def _exchanges(
        self, chosen: Sequence[int], patterns: Sequence[Sequence[int]], passed: set[str]
    ) -> Iterator[list[int]]:
        """Neighbours of a choice: other rules, where tasks still fail first; then one rule less."""
        broken = [n for n in chosen if not passed.issuperset(self._tasks(n))]
        rest = [n for n in chosen if n not in broken]
        for number in (*broken, *rest):
            rules = next(rules for rules in patterns if number in rules)
            for other in rules:
                if other != number:
                    yield [other if n == number else n for n in chosen]
        for number in (*rest, *broken):
            if len(chosen) > 1:
                yield [n for n in chosen if n != number]

    async def _passing(self, numbers: Sequence[int], tasks: Sequence[str]) -> set[str]:
        edits = edits_in(self.proposals[n] for n in numbers)
        changed = apply_edits(self.skill, edits, forgiving).skill
        if changed.digest == self.skill.digest:
            return set()
        rollouts = await self.trial.attempt(changed, tasks)
        return {each.task for each in rollouts if _passed(each)}

    async def _repairs(self, numbers: Sequence[int], tasks: Sequence[str]) -> int:
        return len(await self._passing(numbers, tasks)) if tasks else 0

    def _tasks(self, number: int) -> tuple[str, ...]:
        return self.proposals[number].tasks[: self.trial.tasks]


def _passed(rollout: Rollout) -> bool:
    return isinstance(rollout.outcome, Score) and rollout.outcome.passed


def _told(repaired: Mapping[int, int]) -> str:
    told = "; ".join(f"{n}: repaired {count}" for n, count in sorted(repaired.items()))
    return f"tried on their own tasks: {told or 'nothing repaired one'}"
