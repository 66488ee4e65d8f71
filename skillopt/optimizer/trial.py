"""Selection by trial: proposals are tried alone, then together, on a few training tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from skillopt.aio import map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import Delete, apply_edits
from skillopt.core.memory import Memory
from skillopt.core.proposal import Dropped, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Rollout, Score
from skillopt.core.sink import EventSink, Phase
from skillopt.core.skill import Skill
from skillopt.core.wording import counted
from skillopt.errors import BudgetSpent
from skillopt.optimizer.cases import one_line
from skillopt.optimizer.likeness import task_text
from skillopt.optimizer.locate import forgiving
from skillopt.optimizer.parts import Evidence, TriesSkills
from skillopt.optimizer.selection import ZERO
from skillopt.optimizer.update import edits_in

_EXCHANGES = 5
"""Other combinations that are tried when the first one leaves something broken."""
_FEW_TASKS = 2
"""Tasks that a proposal is tried on where little may be spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Selector `trial`: keeps the proposals that repair most together. Asks no optimizer.

    Every rule is tried on `tasks` of the tasks that speak for it. A rule is kept if it repairs a
    task that no better rule repairs. A rule that contradicts a line shows its worth only when that
    line is gone, so rules are tried without the lines that are proposed for deletion; the lines
    stay if the rules do not need it. Rules that are good alone may spoil each other, so they are
    tried together, and exchanged or left out while that repairs more. What is not kept is told
    with the reason.
    """

    edits_only: ClassVar[bool] = True
    spends_by_task: ClassVar[bool] = False
    """What it spends grows with the proposals."""

    attempt: TriesSkills
    sink: EventSink
    trial_tasks: int = 4
    """How many of its tasks a proposal is tried on."""

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        # Once alone; and once more beside lines that are proposed for deletion.
        alone = size.proposals * (2 if size.deletions else 1)
        together = (_EXCHANGES + 1) * size.used
        most = self.trial_tasks * (alone + together)
        # As a rule there are few proposals.
        yield PartCost("trial", Range(0, most, 0.05 * most), edits=Range(0, size.used))

    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        """At most `budget` proposals: deletions, then rules, those that repaired most first."""
        if budget == 0 or not merged.proposals:
            return Selection(
                dropped=tuple(Dropped(proposal, ZERO) for proposal in merged.proposals)
            )
        rejected = {edit for entry in memory.steps for edit in entry.rejected}
        with self.sink.phase("trial") as progress:
            most = min(self.trial_tasks, _FEW_TASKS) if memory.sparing else self.trial_tasks
            quoted = {each.task: f'"{one_line(task_text(each))}"' for each in evidence.rollouts}
            trial_run = _TrialRun(self, progress, skill, merged.proposals, budget, most, quoted)
            for n, proposal in enumerate(merged.proposals):
                if proposal.edit in rejected:
                    trial_run.drop(n, "it was part of a candidate that the gate rejected")
            kept = await trial_run.choose()
        return Selection(
            tuple(merged.proposals[n] for n in kept),
            trial_run.told,
            tuple(kept),
            dropped=tuple(
                Dropped(proposal, trial_run.dropped[n])
                for n, proposal in enumerate(merged.proposals)
                if n not in kept
            ),
        )


@dataclass(slots=True)
class _TrialRun:
    """One trial under way; proposals go by their number."""

    trial: Trial
    progress: Phase
    skill: Skill
    proposals: Sequence[Proposal]
    budget: int | None
    most: int
    """Tasks that a proposal is tried on."""
    quoted: Mapping[str, str]
    """How a rule shows a task as an example: that it then passes is no evidence."""
    dropped: dict[int, str] = field(default_factory=dict[int, str])
    """Why proposals are not kept."""
    repaired: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    """The tasks that a rule repairs alone."""
    tried: set[int] = field(default_factory=set[int])
    """What adds to the skill and was not rejected before."""
    limit: BudgetSpent | None = None
    """What ended the trial."""
    again: set[int] = field(default_factory=set[int])
    """Rules that are tried on as many tasks as usual, although little may be spent."""

    @property
    def told(self) -> str:
        repairs = "; ".join(f"{n}: repaired {len(it)}" for n, it in sorted(self.repaired.items()))
        return f"tried on their own tasks: {repairs or 'nothing repaired one'}"

    def drop(self, number: int, reason: str) -> None:
        """Leave a proposal out; the first reason counts."""
        self.dropped.setdefault(number, reason)

    async def choose(self) -> list[int]:
        fresh = [n for n in range(len(self.proposals)) if n not in self.dropped]
        deletions = [n for n in fresh if isinstance(self.proposals[n].edit, Delete)]
        rules = [n for n in fresh if n not in deletions]
        # Without a rule, there is nothing that a line could stand against.
        room = self.budget if self.budget is None or not rules else self.budget - 1
        for number in deletions[room:] if room is not None else ():
            self.drop(number, self._beyond())
        deletions = deletions[:room]
        self.tried.update(rules)
        await map_all(lambda n: self._alone(deletions, n), rules)
        await map_all(lambda n: self._more(deletions, n), sorted(self.repaired))
        if not self.repaired and self.limit is not None:
            # Nothing is known of what was not tried: the step is for a run with a higher limit.
            raise self.limit
        if not self.repaired:
            # No rule is worth a line, but the line may be what was wrong.
            await map_all(lambda n: self._alone([], n), deletions)
            if blamed := [n for n in deletions if n in self.repaired]:
                return blamed
            deletions = []
        try:
            needed = await self._needed(deletions)
        except BudgetSpent:
            needed = True
        if not needed:
            for number in deletions:
                self.drop(number, "the rules work with the line as well as without it")
            deletions = []
        return [*deletions, *await self._together(deletions)]

    async def _alone(self, base: Sequence[int], number: int) -> None:
        """What a proposal repairs on top of the base."""
        tasks = self._tasks(number)
        changed = self._changed([*base, number])
        if changed is None:
            self.drop(number, "it changes nothing in the skill")
            return
        try:
            rollouts = await self.trial.attempt(changed, tasks)
        except BudgetSpent as error:
            self.limit = error
            self.drop(number, "a limit ended the trial")
            return
        passed = self._earned(changed, rollouts)
        if passed:
            self.repaired[number] = passed
        else:
            scored = sum(isinstance(rollout.outcome, Score) for rollout in rollouts)
            unscored = f" ({len(tasks) - scored} without a score)" if scored < len(tasks) else ""
            self.drop(number, f"alone it repaired none of {counted(len(tasks), 'task')}{unscored}")
        self.progress.tick("done" if passed else "failed")

    async def _more(self, base: Sequence[int], number: int) -> None:
        """Try it on as many tasks as usual, as far as that can be paid."""
        first = self._tasks(number)
        self.again.add(number)
        more = [task for task in self._tasks(number) if task not in first]
        try:
            if more:
                self.repaired[number] |= await self._passing([*base, number], more)
        except BudgetSpent:
            self.again.remove(number)

    async def _needed(self, deletions: Sequence[int]) -> bool:
        """Whether some rule repairs less while the lines still stand."""
        if not deletions:
            return False
        for number, passed in sorted(self.repaired.items()):
            if not await self._passing([number], sorted(passed)) >= passed:
                return True
        return False

    async def _together(self, deletions: Sequence[int]) -> list[int]:
        """Start from rules that repair most between them; exchange while that repairs more."""
        chosen = self._cover(deletions)
        with suppress(BudgetSpent):
            async for better in self._better(chosen, deletions):
                chosen = better
        return chosen

    async def _better(
        self, chosen: list[int], deletions: Sequence[int]
    ) -> AsyncIterator[list[int]]:
        """Choices that repair more and more together."""
        unrepaired = self._unrepaired()
        tasks = chain(*(self._tasks(n) for n in chosen), *map(self._tasks, unrepaired))
        probes = list(dict.fromkeys(tasks))
        passed = await self._passing([*deletions, *chosen], probes)
        left = _EXCHANGES
        while left and len(passed) < len(probes):
            for other in self._exchanges(chosen, passed, len(deletions)):
                left -= 1
                now = await self._repairing([*deletions, *other], probes, passed)
                if len(now) > len(passed):
                    for number in set(chosen) - set(other):
                        self.drop(
                            number,
                            f"without it {len(now)} of {len(probes)} tried tasks are repaired "
                            f"together, with it {len(passed)}",
                        )
                    for number in other:
                        self.dropped.pop(number, None)
                    chosen, passed = other, now
                    yield chosen
                    break
                if not left:
                    break
            else:
                break

    async def _repairing(
        self, numbers: Sequence[int], probes: Sequence[str], passed: set[str]
    ) -> set[str]:
        """What passes of the probes; those that fail so far come first, and are enough if all do.

        Attempts are cached, so nothing is asked twice.
        """
        broken = [task for task in probes if task not in passed]
        if not await self._passing(numbers, broken):
            return set()
        return await self._passing(numbers, probes)

    def _cover(self, deletions: Sequence[int]) -> list[int]:
        """Rules by what they repair, each of which repairs a task that none before it does."""
        chosen: list[int] = []
        done: set[str] = set()
        ranked = sorted(self.repaired, key=lambda n: (-len(self.repaired[n]), n))
        for number in ranked:
            tried = f"alone it repaired {len(self.repaired[number])} of "
            tried += counted(len(self._tasks(number)), "task")
            if self.repaired[number] <= done:
                self.drop(number, f"{tried}, all of which rules that are kept repair too")
            elif self.budget is not None and len(chosen) >= self.budget - len(deletions):
                self.drop(number, f"{tried}; {self._beyond()}")
            else:
                chosen.append(number)
                done |= self.repaired[number]
        return chosen

    def _exchanges(
        self, chosen: Sequence[int], passed: set[str], deletions: int
    ) -> Iterator[list[int]]:
        """Neighbours of a choice: for tasks that fail one rule more, or another; then one less.

        What repaired nothing alone may still complete a rule: it says what examples only show.
        """
        broken = [n for n in chosen if not passed.issuperset(self._tasks(n))]
        rest = [n for n in chosen if n not in broken]
        left = None if self.budget is None else self.budget - deletions
        for number in (*broken, *self._unrepaired()):
            if number in chosen or passed.isdisjoint(self._tasks(number)):
                more = [*dict.fromkeys([*chosen, number])]
                for other in self._companions(number, chosen):
                    if left is None or len(more) < left:
                        yield [*more, other]
        for number in (*broken, *rest):
            for other in sorted(self.repaired):
                if other not in chosen and self.repaired[other] & self.repaired[number]:
                    yield [other if n == number else n for n in chosen]
        for number in (*rest, *broken):
            if len(chosen) > 1:
                yield [n for n in chosen if n != number]

    def _unrepaired(self) -> list[int]:
        """One rule, where another proposer has one too, for each group of tasks without repair."""
        repaired = set[str]().union(*self.repaired.values())
        found: list[int] = []
        seen: set[str] = set()
        for n in self._rules():
            tasks = self.proposals[n].tasks
            if (repaired | seen).isdisjoint(tasks) and self._companions(n, []):
                found.append(n)
                seen.update(tasks)
        return found

    def _rules(self) -> list[int]:
        """What was tried, those first that repaired most."""
        return sorted(self.tried, key=lambda n: (-len(self.repaired.get(n, ())), n))

    def _companions(self, number: int, chosen: Sequence[int]) -> list[int]:
        """The best rule of each other proposer for the same tasks."""
        rule = self.proposals[number]
        found: dict[str, int] = {}
        for n in self._rules():
            other = self.proposals[n]
            apart = other.by != rule.by and n not in chosen
            if apart and not set(rule.tasks).isdisjoint(other.tasks):
                found.setdefault(other.by, n)
        return list(found.values())

    def _changed(self, numbers: Sequence[int]) -> Skill | None:
        edits = edits_in(self.proposals[n] for n in numbers)
        changed = apply_edits(self.skill, edits, forgiving).skill
        return None if changed.digest == self.skill.digest else changed

    async def _passing(self, numbers: Sequence[int], tasks: Sequence[str]) -> set[str]:
        changed = self._changed(numbers)
        if changed is None:
            return set()
        passed = self._earned(changed, await self.trial.attempt(changed, tasks))
        self.progress.tick()
        return passed

    def _earned(self, skill: Skill, rollouts: Sequence[Rollout]) -> set[str]:
        """Tasks that pass, without those that the skill shows."""
        shown = {task for task, quoted in self.quoted.items() if quoted in skill.body}
        return _passed(rollouts) - shown

    def _tasks(self, number: int) -> list[str]:
        """Tasks of a proposal, spread over all that speak for it."""
        tasks = self.proposals[number].tasks
        most = min(self.trial.trial_tasks if number in self.again else self.most, len(tasks))
        return [tasks[k * len(tasks) // most] for k in range(most)]

    def _beyond(self) -> str:
        return f"the learning rate allows {counted(self.budget or 0, 'edit')} in this step"


def _passed(rollouts: Sequence[Rollout]) -> set[str]:
    return {
        rollout.task
        for rollout in rollouts
        if isinstance(rollout.outcome, Score) and rollout.outcome.passed
    }
