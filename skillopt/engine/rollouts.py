"""Makes attempts in parallel, reads them in a fixed order, and evaluates skills."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from skillopt.aio import TaskGroup, map_all
from skillopt.core.events import Measured
from skillopt.core.ports import Environment, Executor, Harness, RolloutCache
from skillopt.core.rollout import Evaluation, Failure, Rollout, RolloutSpec, Score, failure_of
from skillopt.core.sink import EventSink, Phase
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.executor import LocalExecutor
from skillopt.errors import Pending, RolloutError, SkilloptError, Unmeasurable

_CHECKS = 1_000_000
"""Replicate numbers from here on are attempts that only check whether a task can be scored."""


@dataclass(slots=True)
class WorkerPool:
    """`async with pool.place()` waits for a place, and only for others who do the same.

    Work that is not due yet takes what is `idle`. Where it may turn out not to be needed, it is
    never waited for: whoever needs a place gets it beside such work.
    """

    size: int
    _places: asyncio.Semaphore = field(init=False)
    _busy: int = 0
    """Those who have a place or wait for one."""
    _idle: int = 0
    """Those who took a place because it was idle."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.size)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        self._busy += 1
        try:
            async with self._places:
                yield
        finally:
            self._busy -= 1
            self._wake()

    @asynccontextmanager
    async def idle_place(self) -> AsyncGenerator[None, None]:
        """Wait for a place that nobody needs at the moment, and then have it like any other."""
        while self._busy + self._idle >= self.size:
            await self._freed.wait()
        async with self.place():
            yield

    @asynccontextmanager
    async def idle(self) -> AsyncGenerator[None, None]:
        """Wait for a place that nobody needs at the moment, and work beside whoever needs it.

        On half of the places at most, however many wait for one.
        """
        while self._idle >= max(1, self.size // 2) or self._busy + self._idle >= self.size:
            await self._freed.wait()
        self._idle += 1
        try:
            yield
        finally:
            self._idle -= 1
            self._wake()

    def _wake(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class FailureCounter:
    """Counts failed attempts, and tells readers at once when the rest is not worth waiting for."""

    total: int
    max_failed: float
    """The share of failures above which a result means nothing; 1: any may fail."""
    beside: int = 0
    """Attempts made earlier that the share of failures is counted among as well."""
    started: int = 0
    done: int = 0
    failed: int = 0
    trouble: SkilloptError | None = None
    pending: Pending | None = None
    """Attempts that wait for somebody's answer; told when all others under way are done."""
    halted: asyncio.Future[None] = field(default_factory=_future)

    def count(self, message: str) -> None:
        """One more attempt has failed."""
        self.failed += 1
        total = self.total + self.beside
        if self.failed > self.max_failed * total:
            # The others were stopped, so that more of them might have failed.
            least = f"at least {self.failed} of {total}" if self.failed < total else f"all {total}"
            text = (
                f"{least} attempts failed, more than "
                f"{self.max_failed:.0%} (evaluation.max_failure_share), so the result would be "
                f"meaningless. Last failure: {message}. "
                "Finished work is saved: fix the cause and run the same command again."
            )
            self.halt(Unmeasurable(text))

    def wait(self, error: Pending) -> None:
        self.pending = error if self.pending is None else self.pending + error

    def finish(self) -> None:
        """One more attempt is over, however it went."""
        self.done += 1
        if self.done == self.started and self.pending is not None:
            self.halt(self.pending)

    def halt(self, error: SkilloptError) -> None:
        """Give every reader this error instead of further rollouts."""
        if self.trouble is None:
            self.halted.set_result(None)
        elif not (isinstance(self.trouble, Unmeasurable) and isinstance(error, Unmeasurable)):
            return
        # Until somebody reads it, further failures are counted in.
        self.trouble = error


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts under way, read in order, as often as wanted."""

    running: Sequence[asyncio.Task[Rollout]]
    failures: FailureCounter

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        """Each rollout as soon as it and all before it are done."""
        for task in self.running:
            if not task.done():
                both = (task, self.failures.halted)
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not task.cancelled() and task.done() and isinstance(task.exception(), Pending):
                await asyncio.wait((self.failures.halted,))
            if self.failures.trouble is not None:
                raise self.failures.trouble
            yield task.result()

    async def all(self) -> list[Rollout]:
        return [rollout async for rollout in self]


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """Attempts that are told as one, started in one go or in several; failures add up."""

    runner: RolloutRunner
    progress: Phase
    failures: FailureCounter

    @asynccontextmanager
    async def start(
        self, batches: Sequence[Sequence[RolloutSpec]]
    ) -> AsyncGenerator[list[Attempts], None]:
        self.failures.started += sum(map(len, batches))
        async with TaskGroup() as group:
            yield [
                Attempts([group.start(self._one(spec)) for spec in batch], self.failures)
                for batch in batches
            ]

    async def evaluate(
        self, skill: Skill, split: Split, tasks: Sequence[Task], replicates: Sequence[int]
    ) -> Evaluation:
        async with self.start([self.runner.specs(skill, tasks, replicates)]) as (attempts,):
            return Evaluation.of(skill.digest, split, await attempts.all())

    async def _one(self, spec: RolloutSpec) -> Rollout:
        """One attempt, reported and counted."""
        failures = self.failures
        try:
            rollout, reused = await self.runner.attempt(spec)
        except Pending as error:
            failures.wait(error)
            raise
        except SkilloptError as error:
            failures.halt(error)
            raise
        finally:
            failures.finish()
        match rollout.outcome:
            case Score(hard):
                self.progress.tick("reused" if reused else "done", hard)
            case Failure(_, message):
                self.progress.tick("failed")
                failures.count(message)
        if failures.done == failures.total:
            self.progress.finish()
        return rollout


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
    """One limit for everything that runs at the same time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "worker_pool", WorkerPool(self.workers))

    @asynccontextmanager
    async def attempts(
        self,
        batches: Sequence[Sequence[Task]],
        skill: Skill,
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
    ) -> AsyncGenerator[list[Attempts], None]:
        """Start a skill on batches of tasks; each batch is then read in its own fixed order.

        What was attempted before is not attempted again. As soon as too many attempts have failed
        to mean anything, reading raises `Unmeasurable` and the rest is cancelled.
        """
        specs = [self.specs(skill, tasks, replicates) for tasks in batches]
        with self._group(phase, sum(map(len, specs))) as group:
            async with group.start(specs) as attempts:
                yield attempts

    async def measure(
        self,
        skill: Skill,
        split: Split,
        tasks: Sequence[Task],
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
        against: Measured | None = None,
        due: Callable[[Evaluation], int] | None = None,
        max_failed: float | None = None,
        beside: int = 0,
    ) -> Evaluation:
        """Evaluate a skill on tasks of a split, each attempted once per replicate.

        Compared `against` another skill, failures are settled. Otherwise too many are refused:
        more than `max_failed` of these attempts and of those made earlier (`beside`). `due` is told
        all attempts until then and says how many tasks are started next; 0 ends the evaluation.
        """
        total = len(tasks) * len(replicates)
        unsettled = self.failure_counter(total)
        evaluation = Evaluation(skill.digest, split, {})
        allowed = max_failed if against is None else 1.0
        with self._group(phase, total, allowed, beside) as group:
            left = tasks
            while left and (part := left[: len(left) if due is None else due(evaluation)]):
                left = left[len(part) :]
                result = await group.evaluate(skill, split, part, replicates)
                if against is not None:
                    result = await self.settle(result, skill, part, against, unsettled)
                evaluation = evaluation.joined(result)
        return evaluation.ordered([task.id for task in tasks])

    async def measure_each(
        self,
        trials: Sequence[tuple[Skill, Sequence[Task]]],
        split: Split,
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
        against: Measured | Literal["first"] | None = None,
    ) -> list[Evaluation]:
        """Evaluate several skills side by side, each on its own tasks of a split.

        With a skill to compare them `against`, which may be the first of them, failures are
        settled.
        """
        total = sum(len(tasks) for _, tasks in trials) * len(replicates)
        with self._group(phase, total, None if against is None else 1.0) as group:

            async def one(trial: tuple[Skill, Sequence[Task]]) -> Evaluation:
                return await group.evaluate(trial[0], split, trial[1], replicates)

            results = await map_all(one, trials)
        if against is None:
            return results
        if against == "first":
            against = Measured(trials[0][0], results[0], results[0].hard, "", 0)
        unsettled = self.failure_counter(total)
        settled: list[Evaluation] = []
        for result, (skill, tasks) in zip(results, trials, strict=True):
            found = await self.settle(result, skill, tasks, against, unsettled)
            settled.append(found.ordered([task.id for task in tasks]))
        return settled

    async def settle(
        self,
        evaluation: Evaluation,
        skill: Skill,
        tasks: Sequence[Task],
        against: Measured,
        unsettled: FailureCounter,
        replicates: Sequence[int] | None = None,
    ) -> Evaluation:
        """The same evaluation of tasks that were all attempted, each failure put down to its cause.

        What has a score with the other skill and none with this one is tried again. If it fails
        again, the other skill is tried once more on the same task. If that has a score, this skill
        is the cause, and the attempt counts as 0. If it fails too, no skill is the cause, and the
        attempt stays without a score; the counter refuses too many of these.
        """
        rounds = range(len(evaluation.replicates)) if replicates is None else replicates
        for replicate in rounds:
            comparable: list[Task] = []
            for task in tasks:
                if evaluation.scored(task.id, replicate):
                    continue
                if against.evaluation.scored(task.id, replicate):
                    comparable.append(task)
                    continue
                failure = evaluation.failures.get(task.id)
                unsettled.count("an attempt failed" if failure is None else failure.message)
            if unsettled.trouble is not None:
                raise unsettled.trouble
            if comparable:
                again = await self._try_again(
                    skill, evaluation.split, comparable, replicate, against, unsettled
                )
                evaluation = evaluation.plus(replicate, again)
        return evaluation

    async def _try_again(
        self,
        skill: Skill,
        split: Split,
        tasks: Sequence[Task],
        replicate: int,
        against: Measured,
        unsettled: FailureCounter,
    ) -> Evaluation:
        """A second attempt at each of these, and what its failure means."""
        any_may_fail = self.failure_counter(len(tasks), 1.0)
        with self.sink.phase("failed attempts again", len(tasks)) as progress:
            group = RolloutGroup(self, progress, any_may_fail)
            again = await group.evaluate(skill, split, tasks, (replicate,))
        # Where the other skill counts as 0 for the same reason, nothing has to be found out.
        known = against.evaluation.own_failures
        doubtful = [task for task in tasks if task.id in again.failures and task.id not in known]
        cleared = Evaluation("", split, {})
        if doubtful:
            # A number of its own for every skill: an earlier check says nothing about this moment.
            check = _CHECKS + int(skill.digest[:6], 16) + replicate
            with self.sink.phase("failed attempts compared", len(doubtful)) as progress:
                group = RolloutGroup(self, progress, unsettled)
                cleared = await group.evaluate(against.skill, split, doubtful, (check,))
        failures = again.failures.items()
        own = {task: failure for task, failure in failures if task not in cleared.failures}
        lost = {task: failure for task, failure in failures if task in cleared.failures}
        scores = {**again.scores, **dict.fromkeys(own, Score(0, 0))}
        return Evaluation(skill.digest, split, scores, lost, own_failures=own)

    async def try_out(
        self, skill: Skill, tasks: Sequence[Task], replicate: int = 0
    ) -> list[Rollout]:
        """Attempts at a few tasks, outside of any evaluation; failures are the caller's to read."""
        specs = self.specs(skill, tasks, [replicate])
        return [rollout for rollout, _ in await map_all(self.attempt, specs)]

    async def attempt(self, spec: RolloutSpec) -> tuple[Rollout, bool]:
        """One attempt in a place of the pool, and whether it was finished before."""

        async def make() -> Rollout:
            async with self.worker_pool.place():
                return await self._make(spec)

        return await self.cache.rollout(spec.key, make)

    async def prefetch(
        self, spec: RolloutSpec, move: str, *, certain: bool
    ) -> tuple[Rollout, bool]:
        """An attempt for a later move, in a place that the caller has, and whether it was cached.

        It is reported and counted when somebody needs it.
        """

        async def make() -> Rollout:
            return await self._make(spec)

        return await self.cache.rollout(spec.key, make, prefetch_for=move, certain=certain)

    async def _make(self, spec: RolloutSpec) -> Rollout:
        executor = self.executor
        if executor is None:
            executor = LocalExecutor(self.environment, self.harness, self.score_timeout)
        try:
            return await executor.run(spec)
        except RolloutError as error:
            return spec.rollout(failure_of(error))

    def specs(
        self, skill: Skill, tasks: Sequence[Task], replicates: Sequence[int] = (0,)
    ) -> list[RolloutSpec]:
        """The attempts at these tasks, in order; what they share is worked out once."""
        digest = skill.digest
        environment, harness = self.environment.fingerprint, self.harness.fingerprint
        return [
            RolloutSpec(
                task=task,
                skill=skill,
                digest=digest,
                replicate=replicate,
                environment=environment,
                harness=harness,
            )
            for task in tasks
            for replicate in replicates
        ]

    def failure_counter(
        self, total: int, max_failed: float | None = None, beside: int = 0
    ) -> FailureCounter:
        return FailureCounter(total, self.max_failed if max_failed is None else max_failed, beside)

    @contextmanager
    def _group(
        self, phase: str, total: int, max_failed: float | None = None, beside: int = 0
    ) -> Generator[RolloutGroup, None, None]:
        with self.sink.phase(phase, total) as progress:
            yield RolloutGroup(self, progress, self.failure_counter(total, max_failed, beside))
