"""Trying a skill on tasks: many attempts at once, read in a fixed order."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from skillopt.aio import map_all, nursery
from skillopt.core.journal import Journal, Phase
from skillopt.core.ports import Environment, Harness, Work
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.slots import Slots
from skillopt.errors import (
    EnvironmentFault,
    HarnessError,
    Pending,
    RolloutError,
    SkilloptError,
    Unmeasurable,
    attributed_to,
)


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Tally:
    """Counts failed attempts, and tells readers at once when the rest is not worth waiting for."""

    total: int
    max_failed: float
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
            text = (
                f"{self.failed} of {total} attempts failed, more than "
                f"{self.max_failed:.0%} (evaluation.max_failure_share), so the result would mean "
                f"nothing. The last one: {message}. "
                "Finished work is kept: repair the cause and run the same command again."
            )
            self.halt(Unmeasurable(text))

    def wait(self, error: Pending) -> None:
        """One more attempt waits for an answer."""
        self.pending = error if self.pending is None else self.pending + error

    def finish(self) -> None:
        """One more attempt is over, however it went."""
        self.done += 1
        if self.done == self.started and self.pending is not None:
            self.halt(self.pending)

    def halt(self, error: SkilloptError) -> None:
        """Give every reader this error instead of further rollouts."""
        if self.trouble is None:
            self.trouble = error
            self.halted.set_result(None)


@dataclass(frozen=True, slots=True)
class Attempts:
    """A group of attempts under way, read in order, as often as wanted."""

    running: Sequence[asyncio.Task[Rollout]]
    tally: Tally

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        """Each rollout as soon as it and all before it are done."""
        for task in self.running:
            if not task.done():
                both = (task, self.tally.halted)
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not task.cancelled() and task.done() and isinstance(task.exception(), Pending):
                await asyncio.wait((self.tally.halted,))
            if self.tally.trouble is not None:
                raise self.tally.trouble
            yield task.result()

    async def all(self) -> list[Rollout]:
        """All of them, in order."""
        return [each async for each in self]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all attempts of a group share, worked out once and not for every task."""

    skill: Skill
    digest: str
    environment: str
    harness: str

    def key(self, task: Task, replicate: int = 0) -> str:
        """Name of an attempt by everything that may change its outcome."""
        parts = (self.environment, task.digest, self.digest, self.harness, str(replicate))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _never(_: Evaluation) -> bool:
    return False


def _blocks(tasks: Sequence[Task], size: int) -> list[Sequence[Task]]:
    """The tasks, so many at a time; 0: all at once."""
    stride = max(1, len(tasks)) if size == 0 else size
    return [tasks[at : at + stride] for at in range(0, len(tasks), stride)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What it takes to try a skill on tasks: used by training and by evaluation alike."""

    environment: Environment
    harness: Harness
    work: Work
    journal: Journal
    workers: int = 8
    max_failed: float = 0.1
    """The share of failed attempts above which a result is refused."""
    slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        """One limit for everything that runs at the same time."""
        object.__setattr__(self, "slots", Slots(self.workers))

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
        with self.journal.phase(phase, total) as progress:
            series = _Series(self, replicates, progress, total)
            async with series.start(tasks, skill) as attempts:
                yield attempts

    async def measure(
        self,
        skill: Skill,
        split: Split,
        tasks: Sequence[Task],
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
        block: int = 0,
        enough: Callable[[Evaluation], bool] = _never,
    ) -> Evaluation:
        """Evaluate a skill on tasks of a split, each attempted once per replicate.

        With a `block`, so many tasks at a time; no more are started when `enough` says so of all
        attempts until then.
        """
        total = len(tasks) * len(replicates)
        rollouts: list[Rollout] = []
        evaluation = Evaluation(skill.digest, split, {})
        with self.journal.phase(phase, total) as progress:
            series = _Series(self, replicates, progress, total)
            for some in _blocks(tasks, block):
                if enough(evaluation):
                    break
                async with series.start([some], skill) as (attempts,):
                    rollouts += await attempts.all()
                evaluation = Evaluation.of(skill.digest, split, rollouts)
        return evaluation

    async def measure_each(
        self,
        trials: Sequence[tuple[Skill, Sequence[Task]]],
        split: Split,
        phase: str,
        *,
        replicates: Sequence[int] = (0,),
    ) -> list[Evaluation]:
        """Evaluate several skills side by side, each on its own tasks of a split."""
        total = sum(len(tasks) for _, tasks in trials) * len(replicates)
        with self.journal.phase(phase, total) as progress:
            series = _Series(self, replicates, progress, total)

            async def one(trial: tuple[Skill, Sequence[Task]]) -> Evaluation:
                skill, tasks = trial
                async with series.start([tasks], skill) as (attempts,):
                    return Evaluation.of(skill.digest, split, await attempts.all())

            return await map_all(one, trials)

    async def repeat(
        self, known: Evaluation, skill: Skill, tasks: Sequence[Task], phase: str, replicate: int
    ) -> Evaluation:
        """What is known of a skill, together with one more attempt at each of these tasks.

        They may be few, so a share of failures is one of everything that is known.
        """
        with self.journal.phase(phase, len(tasks)) as progress:
            series = _Series(self, (replicate,), progress, len(tasks))
            series.tally.beside = known.n
            async with series.start([tasks], skill) as (attempts,):
                rollouts = await attempts.all()
        return known.plus(replicate, Evaluation.of(skill.digest, known.split, rollouts))

    async def try_out(self, skill: Skill, tasks: Sequence[Task]) -> list[Rollout]:
        """Attempts at a few tasks, outside of any evaluation; failures are the caller's to read."""
        conditions = self.conditions(skill)

        async def one(task: Task) -> Rollout:
            rollout, _ = await self._kept(task, 0, conditions)
            return rollout

        return await map_all(one, tasks)

    async def attempt_ahead(self, task: Task, conditions: Conditions, move: str) -> bool:
        """An attempt for a move that may come, in a slot that the caller has; False: it was kept.

        It is reported and counted when somebody needs it.
        """

        async def make() -> Rollout:
            return await self._roll(task, 0, conditions)

        key = conditions.key(task)
        _, there = await self.work.rollout(key, make, ahead_of=move)
        return not there

    async def _kept(
        self, task: Task, replicate: int, conditions: Conditions
    ) -> tuple[Rollout, bool]:
        async def make() -> Rollout:
            async with self.slots:
                return await self._roll(task, replicate, conditions)

        return await self.work.rollout(conditions.key(task, replicate), make)

    async def attempt(
        self, task: Task, replicate: int, conditions: Conditions, progress: Phase, tally: Tally
    ) -> Rollout:
        """One attempt, from finished work where possible; reported and counted."""
        try:
            rollout, reused = await self._kept(task, replicate, conditions)
        except Pending as error:
            tally.wait(error)
            raise
        except SkilloptError as error:
            tally.halt(error)
            raise
        finally:
            tally.finish()
        match rollout.outcome:
            case Score(hard):
                progress.tick("reused" if reused else "done", hard)
            case Failure(_, message):
                progress.tick("failed")
                tally.count(message)
        if tally.done == tally.total:
            progress.finish()
        return rollout

    async def _roll(self, task: Task, replicate: int, conditions: Conditions) -> Rollout:
        named = f"task {task.id!r}"
        trajectory = None
        try:
            with attributed_to(EnvironmentFault, named):
                async with self.environment.open(task) as episode:
                    with attributed_to(HarnessError, named):
                        trajectory = await self.harness.run(
                            episode, conditions.skill, replicate=replicate
                        )
                    outcome = await episode.score(trajectory)
        except RolloutError as error:
            outcome = Failure(type(error).__name__, str(error))
        return Rollout(
            task=task.id,
            kind=task.kind,
            skill=conditions.digest,
            outcome=outcome,
            trajectory=trajectory,
            replicate=replicate,
        )

    def conditions(self, skill: Skill) -> Conditions:
        """Under which tasks are attempted with a skill."""
        return Conditions(
            skill, skill.digest, self.environment.fingerprint, self.harness.fingerprint
        )


class _Series:
    """Attempts that are told as one, started in one go or in several; failures add up."""

    def __init__(
        self, bench: Bench, replicates: Sequence[int], progress: Phase, total: int
    ) -> None:
        self._bench = bench
        self._replicates = replicates
        self._progress = progress
        self.tally = Tally(total, bench.max_failed)

    @asynccontextmanager
    async def start(
        self, tasks: Sequence[Sequence[Task]], skill: Skill
    ) -> AsyncGenerator[list[Attempts], None]:
        """Start a skill on groups of tasks, each to be read in order; all are done at the end."""
        conditions = self._bench.conditions(skill)
        self.tally.started += sum(map(len, tasks)) * len(self._replicates)
        async with nursery() as group:

            def begin(task: Task, number: int) -> asyncio.Task[Rollout]:
                return group.start(
                    self._bench.attempt(task, number, conditions, self._progress, self.tally)
                )

            yield [
                Attempts([begin(each, n) for each in some for n in self._replicates], self.tally)
                for some in tasks
            ]
