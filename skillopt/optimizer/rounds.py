"""Several rounds of proposing before the gate: each looks at what the last one left unsolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

from skillopt.core.chat import Usage
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Candidate, Draft, Finding, ProposalSet, Selection
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.errors import BudgetSpent
from skillopt.optimizer.parts import TriesSkills
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.update import control

IDLE = 3
"""So many rounds in a row that change nothing end a step; each is shown less at a time."""
LATER = 0.15
"""What a later round takes of what the first one takes, as a rule."""
PER_TASK = 3
"""Attempts that a failed task takes in a round, at most as a rule: until an edit has credit."""
AMPLE = 2
"""If less can be spent than so many times what all failed tasks take, proposals are tried on fewer
tasks (0.918 instead of 0.878 of a perfect skill at 40 % of the original's calls, 12 worlds)."""


class RemainingBudget(Protocol):
    """What a run may still spend."""

    def keeping(self, usage: Usage, /) -> AbstractContextManager[None]:
        """Within it, calls that would use up what is kept are refused with `BudgetSpent`."""
        ...

    def room(self, each: Usage, /) -> int | None:
        """How often so much can still be spent beside what is kept; None: as often as wanted."""
        ...


@dataclass(frozen=True, slots=True)
class Reserve:
    """What rounds must leave of a limited budget: so many attempts, for the gate."""

    budget: RemainingBudget
    attempts: int

    @contextmanager
    def kept(self, made: Iterable[Rollout]) -> Generator[int | None, None, None]:
        """Keeps it, and tells how many tasks a round can work on with the rest; None: with any.

        What an attempt takes is judged by those that were made.
        """
        usages = [rollout.trajectory.usage for rollout in made if rollout.trajectory]
        spent, count = sum(usages, Usage()), max(1, len(usages))
        with self.budget.keeping(_share(spent, self.attempts / count)):
            room = self.budget.room(_share(spent, PER_TASK / count))
            yield room


def _share(usage: Usage, part: float) -> Usage:
    return Usage(
        calls=ceil(usage.calls * part),
        input=ceil(usage.input * part),
        output=ceil(usage.output * part),
        dollars=usage.dollars * part,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Lets a pipeline propose again for the tasks that its own candidate does not solve.

    Only training tasks are attempted meanwhile, and the gate sees the sum of all rounds.
    """

    pipeline: Pipeline
    attempt: TriesSkills
    most: int
    reserve: Reserve | None = None
    """None: nothing limits what a run may spend."""
    spends_by_task: bool = True
    """Whether a round spends less if it works on fewer tasks."""

    async def propose(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> Draft:
        """Go on until rounds in a row change nothing, or no task is left to repair.

        A round is told what earlier ones proposed in vain, so that it asks for something else. It
        does not attempt again what the last one has tried with its own candidate. One that
        would use up what the gate needs is given up, and the gate sees the rounds before it. Where
        little may be spent, rounds are sparing with attempts.
        """
        sparing = False
        if memory.solved:
            batches = [_Attempted(await self._confirmed(skill, batches, memory.solved))]
        if self.reserve is None:
            draft, tried = await self.pipeline.draft(
                skill, batches, memory, budget=budget, goes_on=True
            )
        else:
            attempted = [rollout for batch in batches async for rollout in batch]
            with self.reserve.kept(attempted) as room:
                if room is not None:
                    sparing = room < AMPLE * sum(not _passed(rollout) for rollout in attempted)
                    batches = [_Attempted(self._fewer(attempted, room))]
                draft, tried = await self.pipeline.draft(
                    skill, batches, memory, budget=budget, sparing=sparing
                )
        first = {rollout.task: rollout for batch in batches async for rollout in batch}
        now = first | _by_task(tried)
        idle = 1 if draft.leading.skill is None else 0
        told = _with_dropped(memory, draft)
        for number in range(1, self.most):
            candidate = draft.leading
            current = candidate.skill or skill
            left = None if budget is None else budget - len(candidate.chosen.proposals)
            if left == 0:
                break
            known = _by_task(tried) if idle == 0 else now
            try:
                with self.reserve.kept(first.values()) if self.reserve else nullcontext() as room:
                    shown = _by_task(self._fewer(now.values(), room))
                    failed = [
                        task for task, last in shown.items() if not (_passed(last) or task in known)
                    ]
                    shown |= _by_task(await self.attempt(current, failed))
                    if all(map(_passed, shown.values())):
                        now |= shown
                        break
                    more, tried = await self.pipeline.draft(
                        current,
                        [_Attempted(list(shown.values()))],
                        replace(told, fruitless=memory.fruitless + idle),
                        budget=left,
                        goes_on=self.reserve is None and number + 1 < self.most,
                        sparing=sparing,
                    )
            except BudgetSpent:
                break
            now |= shown | _by_task(tried)
            told = _with_dropped(told, more)
            draft = _joined(draft, more)
            idle = idle + 1 if more.leading.skill in (None, current) else 0
            if idle == IDLE:
                break
        passed = {task for task, last in now.items() if _passed(last)}
        solved = memory.solved.union(task for task, last in first.items() if _passed(last))
        return replace(
            draft,
            repaired=tuple(task for task in now if task in passed and task not in solved),
            broken=tuple(task for task in now if task in solved and task not in passed),
        )

    async def _confirmed(
        self, skill: Skill, batches: Batches, solved: frozenset[str]
    ) -> list[Rollout]:
        """All attempts, and another one with a control for solved tasks that fail now.

        They pass if they do so with either: what fails by chance has no cause to be asked about.
        """
        attempted = _by_task([rollout for batch in batches async for rollout in batch])
        failed = [task for task in solved.intersection(attempted) if not _passed(attempted[task])]
        with suppress(BudgetSpent):
            again = await self.attempt(control(skill), sorted(failed))
            attempted |= _by_task(filter(_passed, again))
        return list(attempted.values())

    def _fewer(self, rollouts: Iterable[Rollout], most: int | None) -> list[Rollout]:
        """Without some of those that failed, so that `most` of them are left; None: all of them."""
        rollouts = list(rollouts)
        lost = [rollout.task for rollout in rollouts if not _passed(rollout)]
        spared = set(lost[most:]) if self.spends_by_task and most is not None else set[str]()
        return [rollout for rollout in rollouts if rollout.task not in spared]

    def used(self, size: StepSize) -> int:
        """Proposals that become part of a candidate, at most."""
        return self.pipeline.used(size)

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        """Later rounds look only at what is left."""
        yield from self.pipeline.cost(size)
        for _ in range(self.most - 1):
            again = Range(0, size.tasks, 0.05 * size.tasks)
            yield PartCost("next round", again, edits=Range(0, size.allowed))
            yield from (cost.perhaps(LATER) for cost in self.pipeline.cost(size))


def _with_dropped(memory: Memory, draft: Draft) -> Memory:
    """With what a round has proposed in vain."""
    dropped = tuple(each.proposal.edit for each in draft.leading.chosen.dropped)
    if not dropped:
        return memory
    return memory.remember(
        MemoryEntry(
            step=max((entry.step for entry in memory.steps), default=0),
            kind="round",
            action="edits were left out, because nothing was missed without them",
            rejected=dropped,
        )
    )


@dataclass(frozen=True, slots=True)
class _Attempted:
    """Attempts that are there already, as a batch."""

    rollouts: Sequence[Rollout]

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for rollout in self.rollouts:
            yield rollout


def _by_task(rollouts: Iterable[Rollout]) -> dict[str, Rollout]:
    return {rollout.task: rollout for rollout in rollouts}


def _passed(rollout: Rollout) -> bool:
    return isinstance(rollout.outcome, Score) and rollout.outcome.passed


def _joined(first: Draft, then: Draft) -> Draft:
    """Two rounds as one draft: the second one's edits follow those of the first."""
    counts = Counter(finding.source for finding in first.findings)
    findings: list[Finding] = [*first.findings]
    for finding in then.findings:
        findings.append(replace(finding, number=counts[finding.source]))
        counts[finding.source] += 1
    one, other = first.leading, then.leading
    candidate = Candidate(
        name=one.name,
        chosen=_selected(one.chosen, other.chosen, len(first.merged.proposals)),
        report=(*one.report, *other.report),
        skill=one.skill if other.skill is None else other.skill,
    )
    return replace(
        first,
        findings=tuple(findings),
        merged=ProposalSet(
            (*first.merged.proposals, *then.merged.proposals),
            _told(first.merged.reasoning, then.merged.reasoning),
            (*first.merged.problems, *then.merged.problems),
        ),
        candidates=(candidate,),
        repeats=(*first.repeats, *then.repeats),
    )


def _selected(one: Selection, other: Selection, before: int) -> Selection:
    """Both selections; places of the second one come after all proposals of the first."""
    indices = None
    if one.indices is not None and other.indices is not None:
        indices = (*one.indices, *(before + place for place in other.indices))
    return Selection(
        (*one.proposals, *other.proposals),
        _told(one.reasoning, other.reasoning),
        indices,
        _told(one.problem, other.problem),
        (*one.dropped, *other.dropped),
    )


def _told(one: str, other: str) -> str:
    return "\n\n".join(filter(None, (one, other)))
