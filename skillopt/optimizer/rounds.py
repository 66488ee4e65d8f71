"""Several rounds of proposing before the gate: each looks at what the last one left unsolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple, Protocol

from skillopt.core.chat import Usage
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Candidate, Draft, Finding, ProposalSet, Selection
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.core.wording import counted
from skillopt.errors import BudgetSpent
from skillopt.optimizer.parts import TriesSkills
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.update import control

IDLE = 2
"""So many rounds in a row that change nothing end a step; each is shown less at a time. It is one
more where little may be spent, because these rounds do not ask in two sizes at once."""
LATER = 0.15
"""What a later round takes of what the first one takes, as a rule."""
PER_TASK = 3
"""Attempts that a failed task takes in a round, at most as a rule: until an edit has credit."""
SEVERAL = 2
"""So many broken tasks are no coincidence."""
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

    def shortage(self, usage: Usage, what: str, /) -> str | None:
        """Why so much cannot be spent beside what is kept, if so."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """What a round may spend."""

    budget: RemainingBudget
    task: Usage
    """What the work on a failed task takes."""

    @property
    def tasks(self) -> int | None:
        """How many tasks can be worked on; None: any number."""
        return self.budget.room(self.task)

    def short_of(self, tasks: int) -> BudgetSpent | None:
        """Why so many are too many, if so."""
        what = f"a step that works on {counted(tasks, 'failed task')}"
        reason = self.budget.shortage(_share(self.task, tasks), what)
        return None if reason is None else BudgetSpent(reason)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What rounds must leave of a limited budget: so many attempts, for the gate."""

    budget: RemainingBudget
    attempts: int

    @contextmanager
    def kept(self, made: Iterable[Rollout]) -> Generator[Room, None, None]:
        """Keeps it, and tells what is left for a round.

        What an attempt takes is judged by those that were made.
        """
        usages = [rollout.trajectory.usage for rollout in made if rollout.trajectory]
        spent, count = sum(usages, Usage()), max(1, len(usages))
        with self.budget.keeping(_share(spent, self.attempts / count)):
            yield Room(self.budget, _share(spent, PER_TASK / count))


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
        little may be spent, rounds are sparing with attempts. If nothing was found before a limit
        cut the work short, `BudgetSpent` says so: that is not the same as nothing to find.
        """
        if memory.solved:
            batches = [_Attempted(await self._confirmed(skill, batches, memory))]
        batches, memory, draft, tried, cut = await self._first(skill, batches, memory, budget)
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
                    fewer, short = self._fewer(now.values(), room)
                    shown, cut = _by_task(fewer), cut or short
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
                    )
            except BudgetSpent as error:
                cut = error
                break
            now |= shown | _by_task(tried)
            told = _with_dropped(told, more)
            draft = _joined(draft, more)
            idle = idle + 1 if more.leading.skill in (None, current) else 0
            if idle == IDLE + memory.sparing:
                break
        if draft.leading.skill is None and cut is not None:
            raise cut
        passed = {task for task, last in now.items() if _passed(last)}
        solved = memory.solved.union(task for task, last in first.items() if _passed(last))
        return replace(
            draft,
            repaired=tuple(task for task in now if task in passed and task not in solved),
            broken=tuple(task for task, last in now.items() if task in solved and _failed(last)),
        )

    async def _first(
        self, skill: Skill, batches: Batches, memory: Memory, budget: int | None
    ) -> _First:
        """The first round, on as many of the tasks as can be paid."""
        if self.reserve is None:
            draft, tried = await self.pipeline.draft(
                skill, batches, memory, budget=budget, goes_on=True
            )
            return _First(batches, memory, draft, tried, None)
        attempted = [rollout for batch in batches async for rollout in batch]
        with self.reserve.kept(attempted) as room:
            failed = sum(not _passed(rollout) for rollout in attempted)
            sparing = room.tasks is not None and room.tasks < AMPLE * failed
            memory = replace(memory, sparing=sparing)
            fewer, cut = self._fewer(attempted, room)
            if cut is not None and room.tasks == 0:
                raise cut
            batches = [_Attempted(fewer)]
            draft, tried = await self.pipeline.draft(skill, batches, memory, budget=budget)
        return _First(batches, memory, draft, tried, cut)

    async def _confirmed(self, skill: Skill, batches: Batches, memory: Memory) -> list[Rollout]:
        """All attempts. A solved task that fails now passes if it does so with a control.

        For what fails by chance has no cause to be asked about. Where several tasks are really
        broken, all others that the changes since may have broken are attempted as well.
        """
        attempted = _by_task([rollout for batch in batches async for rollout in batch])
        with suppress(BudgetSpent):
            attempted |= await self._lucky(skill, attempted, memory)
            if len(_broken(attempted, memory)) >= SEVERAL:
                left = sorted(memory.doubted - attempted.keys())
                more = _by_task(await self.attempt(skill, left))
                attempted |= more | await self._lucky(skill, more, memory)
        return list(attempted.values())

    async def _lucky(
        self, skill: Skill, attempted: Mapping[str, Rollout], memory: Memory
    ) -> dict[str, Rollout]:
        """Attempts with a control that pass, at solved tasks that fail."""
        again = await self.attempt(control(skill), _broken(attempted, memory))
        return _by_task(filter(_passed, again))

    def _fewer(
        self, rollouts: Iterable[Rollout], room: Room | None
    ) -> tuple[list[Rollout], BudgetSpent | None]:
        """Without those that failed for which there is no room, and why these were left out."""
        rollouts = list(rollouts)
        lost = [rollout.task for rollout in rollouts if not _passed(rollout)]
        most = room.tasks if room is not None and self.spends_by_task else None
        if room is None or most is None or most >= len(lost):
            return rollouts, None
        spared = set(lost[most:])
        fewer = [rollout for rollout in rollouts if rollout.task not in spared]
        return fewer, room.short_of(len(lost))

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


class _First(NamedTuple):
    """The first round, and what it worked on."""

    batches: Batches
    memory: Memory
    draft: Draft
    tried: tuple[Rollout, ...]
    cut: BudgetSpent | None
    """Why some of the tasks were left out."""


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


def _broken(attempted: Mapping[str, Rollout], memory: Memory) -> list[str]:
    """Solved tasks that fail."""
    return sorted(
        task for task, last in attempted.items() if task in memory.solved and _failed(last)
    )


def _passed(rollout: Rollout) -> bool:
    return isinstance(rollout.outcome, Score) and rollout.outcome.passed


def _failed(rollout: Rollout) -> bool:
    """An attempt without a score is none that failed."""
    return isinstance(rollout.outcome, Score) and not rollout.outcome.passed


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
