"""Makes attempts in parallel, reads them in a fixed order, and evaluates skills."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from skillopt.aio import map_all
from skillopt.core.ports import Environment, Executor, Harness, RolloutCache
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score, failure_of
from skillopt.core.seeds import blocks
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.executor import LocalExecutor
from skillopt.engine.rollout_group import (
    Attempts,
    FailureCounter,
    RolloutGroup,
    RolloutKey,
    WorkerPool,
)
from skillopt.errors import RolloutError

_CHECKS = 1_000_000
"""Replicate numbers from here on are attempts that only check whether a task can be scored."""


def _never(_: Evaluation) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The skill that another one is compared with, and how it did."""

    skill: Skill
    evaluation: Evaluation

    def scored(self, task: str, replicate: int) -> bool:
        """Whether this attempt has a score."""
        rounds = self.evaluation.replicates
        return replicate < len(rounds) and task in rounds[replicate]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a skill is measured that is compared with another one."""

    reference: Incumbent
    block: int = 0
    """So many tasks at a time; 0: all of them."""
    enough: Callable[[Evaluation], bool] = _never
    """Asked before each block about all attempts until then; True: no more are started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRunner:
    """What it takes to try a skill on tasks: used by training and by evaluation alike."""

    environment: Environment
    harness: Harness
    cache: RolloutCache
    sink: EventSink
    workers: int = 8
    max_failed: float = 0.1
    """The share of failed attempts above which a result is refused."""
    score_timeout: float | None = None
    """Seconds after which a scorer is given up; None: it is waited for."""
    executor: Executor | None = None
    """Makes the attempts; None: they are made in this process."""
    worker_pool: WorkerPool = field(init=False)
    _executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        """One limit for everything that runs at the same time."""
        local = LocalExecutor(self.environment, self.harness, self.score_timeout)
        object.__setattr__(self, "_executor", self.executor or local)
        object.__setattr__(self, "worker_pool", WorkerPool(self.workers))

    @asynccontextmanager
    async def attempts(
        self,
        tasks: Sequence[Sequence[Task]],
        skill: Skill,
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
    ) -> AsyncGenerator[list[Attempts], None]:
        """Start a skill on groups of tasks; each group is then read in its own fixed order.

        What was attempted before is not attempted again. As soon as too many attempts have failed
        to mean anything, reading raises `Unmeasurable` and the rest is cancelled.
        """
        total = sum(map(len, tasks)) * len(replicates)
        with self._series(phase, total, replicates) as series:
            async with series.start(tasks, self.rollout_key(skill)) as attempts:
                yield attempts

    async def measure(
        self,
        skill: Skill,
        split: Split,
        tasks: Sequence[Task],
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
        against: Comparison | None = None,
        max_failed: float | None = None,
    ) -> Evaluation:
        """Evaluate a skill on tasks of a split, each attempted once per replicate.

        In a comparison, failures are settled. Otherwise too many of them are refused.
        """
        total = len(tasks) * len(replicates)
        if against is not None:
            max_failed = 1.0
        tally = self.tally(total)
        evaluation = Evaluation(skill.digest, split, {})
        block = against.block if against is not None and against.block else max(1, len(tasks))
        with self._series(phase, total, replicates, max_failed=max_failed) as series:
            for some in blocks(tasks, block):
                if against is not None and against.enough(evaluation):
                    break
                async with series.start([some], self.rollout_key(skill)) as (attempts,):
                    part = Evaluation.of(skill.digest, split, await attempts.all())
                if against is not None:
                    part = await self.settle(part, skill, some, against.reference, tally)
                evaluation = evaluation.joined(part)
        return evaluation.ordered([each.id for each in tasks])

    async def measure_each(
        self,
        trials: Sequence[tuple[Skill, Sequence[Task]]],
        split: Split,
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
        against: Incumbent | Literal["first"] | None = None,
    ) -> list[Evaluation]:
        """Evaluate several skills side by side, each on its own tasks of a split.

        With a skill to compare them `against`, which may be the first of them, failures are
        settled.
        """
        total = sum(len(tasks) for _, tasks in trials) * len(replicates)
        max_failed = None if against is None else 1.0
        with self._series(phase, total, replicates, max_failed=max_failed) as series:

            async def one(trial: tuple[Skill, Sequence[Task]]) -> Evaluation:
                skill, tasks = trial
                async with series.start([tasks], self.rollout_key(skill)) as (attempts,):
                    return Evaluation.of(skill.digest, split, await attempts.all())

            found = await map_all(one, trials)
        if against is None:
            return found
        if against == "first":
            against = Incumbent(trials[0][0], found[0])
        tally = self.tally(total)
        return [
            (await self.settle(each, skill, tasks, against, tally)).ordered([t.id for t in tasks])
            for each, (skill, tasks) in zip(found, trials, strict=True)
        ]

    async def settle(
        self,
        found: Evaluation,
        skill: Skill,
        tasks: Sequence[Task],
        against: Incumbent,
        tally: FailureCounter,
        replicates: Sequence[int] | None = None,
    ) -> Evaluation:
        """The same evaluation of tasks that were all attempted, each failure put down to its cause.

        What has a score with the other skill and none with this one is tried again. If it fails
        again, the other skill is tried once more on the same task. If that has a score, this skill
        is the cause, and the attempt counts as 0. If it fails too, no skill is the cause, and the
        attempt stays without a score; the `tally` refuses too many of these.
        """
        for number in range(len(found.replicates)) if replicates is None else replicates:
            lost = [each for each in tasks if each.id not in found.replicates[number]]
            comparable = [each for each in lost if against.scored(each.id, number)]
            for each in lost:
                if each not in comparable:
                    tally.count(_message(found.failures.get(each.id)))
            if tally.trouble is not None:
                raise tally.trouble
            if comparable:
                again = await self._settled(found, skill, comparable, number, against, tally)
                found = found.plus(number, again)
        return found

    async def _settled(
        self,
        found: Evaluation,
        skill: Skill,
        tasks: Sequence[Task],
        number: int,
        against: Incumbent,
        tally: FailureCounter,
    ) -> Evaluation:
        """A second attempt at each of these, and what its failure means."""
        free = self.tally(len(tasks), 1.0)
        rollouts = await self._once("failed attempts again", skill, tasks, number, free)
        again = Evaluation.of(skill.digest, found.split, rollouts)
        # Where the other skill counts as 0 for the same reason, nothing has to be found out.
        known = against.evaluation.own_failures
        asked = [each for each in tasks if each.id in again.failures and each.id not in known]
        # A number of its own for every skill: an earlier check says nothing about this moment.
        check = _CHECKS + int(skill.digest[:6], 16) + number
        checks = await self._once("failed attempts compared", against.skill, asked, check, tally)
        cleared = {each.task for each in checks if isinstance(each.outcome, Failure)}
        own = {task: each for task, each in again.failures.items() if task not in cleared}
        lost = {task: each for task, each in again.failures.items() if task in cleared}
        scores = {**again.scores, **dict.fromkeys(own, Score(0, 0))}
        return Evaluation(skill.digest, found.split, scores, lost, own_failures=own)

    async def _once(
        self, phase: str, skill: Skill, tasks: Sequence[Task], number: int, tally: FailureCounter
    ) -> list[Rollout]:
        if not tasks:
            return []
        with self.sink.phase(phase, len(tasks)) as progress:
            series = RolloutGroup(self._kept, (number,), progress, tally)
            async with series.start([tasks], self.rollout_key(skill)) as (attempts,):
                return await attempts.all()

    async def repeat(
        self,
        known: Evaluation,
        skill: Skill,
        tasks: Sequence[Task],
        phase: str,
        replicate: int,
        *,
        max_failed: float | None = None,
    ) -> Evaluation:
        """What is known of a skill, together with one more attempt at each of these tasks.

        They may be few, so a share of failures is one of everything that is known.
        """
        with self._series(
            phase, len(tasks), (replicate,), beside=known.n, max_failed=max_failed
        ) as series:
            async with series.start([tasks], self.rollout_key(skill)) as (attempts,):
                rollouts = await attempts.all()
        return known.plus(replicate, Evaluation.of(skill.digest, known.split, rollouts))

    async def try_out(self, skill: Skill, tasks: Sequence[Task]) -> list[Rollout]:
        """Attempts at a few tasks, outside of any evaluation; failures are the caller's to read."""
        rollout_key = self.rollout_key(skill)

        async def one(task: Task) -> Rollout:
            rollout, _ = await self._kept(task, 0, rollout_key)
            return rollout

        return await map_all(one, tasks)

    async def prefetch(self, task: Task, rollout_key: RolloutKey, move: str) -> bool:
        """An attempt for a move that may come, in a slot that the caller has; False: it was kept.

        It is reported and counted when somebody needs it.
        """

        async def make() -> Rollout:
            return await self._roll(task, 0, rollout_key)

        key = rollout_key.key(task)
        _, there = await self.cache.rollout(key, make, prefetch_for=move)
        return not there

    @contextmanager
    def _series(
        self,
        phase: str,
        total: int,
        replicates: Sequence[int],
        *,
        beside: int = 0,
        max_failed: float | None = None,
    ) -> Generator[RolloutGroup, None, None]:
        tally = self.tally(total, max_failed, beside)
        with self.sink.phase(phase, total) as progress:
            yield RolloutGroup(self._kept, replicates, progress, tally)

    def tally(self, total: int, max_failed: float | None = None, beside: int = 0) -> FailureCounter:
        """Which share of failures is too much; 1.0: none is."""
        return FailureCounter(total, self.max_failed if max_failed is None else max_failed, beside)

    async def _kept(
        self, task: Task, replicate: int, rollout_key: RolloutKey
    ) -> tuple[Rollout, bool]:
        async def make() -> Rollout:
            async with self.worker_pool:
                return await self._roll(task, replicate, rollout_key)

        return await self.cache.rollout(rollout_key.key(task, replicate), make)

    async def _roll(self, task: Task, replicate: int, rollout_key: RolloutKey) -> Rollout:
        spec = rollout_key.spec(task, replicate)
        try:
            return await self._executor.run(spec)
        except RolloutError as error:
            return spec.rollout(failure_of(error))

    def rollout_key(self, skill: Skill) -> RolloutKey:
        """Under which tasks are attempted with a skill."""
        return RolloutKey(
            skill, skill.digest, self.environment.fingerprint, self.harness.fingerprint
        )


def _message(failure: Failure | None) -> str:
    return "an attempt failed" if failure is None else failure.message
