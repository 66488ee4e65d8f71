"""Rollouts that belong together: started at once, limited by workers, read in a fixed order."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from skillopt.aio import task_group
from skillopt.core.rollout import Failure, Rollout, RolloutSpec, Score
from skillopt.core.sink import Phase
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.errors import Pending, SkilloptError, Unmeasurable


@dataclass(slots=True)
class WorkerPool:
    """`async with slots` waits for a place, and only for others who do the same.

    Work that nobody has asked for yet takes what is `idle`. It is never waited for: whoever needs
    a place gets it beside such work.
    """

    size: int
    _places: asyncio.Semaphore = field(init=False)
    _busy: int = 0
    """Those who have a place or wait for one."""
    _idle: int = 0
    """Those who took a place because it was idle."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """All places are free."""
        self._places = asyncio.Semaphore(self.size)

    async def __aenter__(self) -> None:
        """Wait for a place."""
        self._busy += 1
        try:
            await self._places.acquire()
        except BaseException:
            self._busy -= 1
            self._tell()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the place back."""
        self._places.release()
        self._busy -= 1
        self._tell()

    @asynccontextmanager
    async def idle(self) -> AsyncGenerator[None, None]:
        """Wait for a place that nobody needs at the moment."""
        while self._busy + self._idle >= self.size:
            await self._freed.wait()
        self._idle += 1
        try:
            yield
        finally:
            self._idle -= 1
            self._tell()

    def _tell(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class FailureCounter:
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
            self.halted.set_result(None)
        elif not (isinstance(self.trouble, Unmeasurable) and isinstance(error, Unmeasurable)):
            return
        # Until somebody reads it, further failures are counted in.
        self.trouble = error


@dataclass(frozen=True, slots=True)
class Attempts:
    """A group of attempts under way, read in order, as often as wanted."""

    running: Sequence[asyncio.Task[Rollout]]
    tally: FailureCounter

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
class RolloutKey:
    """What all attempts of a group share, worked out once and not for every task."""

    skill: Skill
    digest: str
    environment: str
    harness: str

    def key(self, task: Task, replicate: int = 0) -> str:
        """Name of an attempt by everything that may change its outcome."""
        parts = (self.environment, task.digest, self.digest, self.harness, str(replicate))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def spec(self, task: Task, replicate: int = 0) -> RolloutSpec:
        """An attempt of the group."""
        return RolloutSpec(
            task=task,
            skill=self.skill,
            digest=self.digest,
            replicate=replicate,
            environment=self.environment,
            harness=self.harness,
        )


class MakeRollout(Protocol):
    """One attempt, made or found."""

    async def __call__(
        self, task: Task, replicate: int, rollout_key: RolloutKey
    ) -> tuple[Rollout, bool]:
        """The rollout, and whether it was finished before."""
        ...


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """Attempts that are told as one, started in one go or in several; failures add up."""

    attempt: MakeRollout
    replicates: Sequence[int]
    progress: Phase
    tally: FailureCounter

    @asynccontextmanager
    async def start(
        self, tasks: Sequence[Sequence[Task]], rollout_key: RolloutKey
    ) -> AsyncGenerator[list[Attempts], None]:
        """Start groups of tasks, each to be read in order; all are done at the end."""
        self.tally.started += sum(map(len, tasks)) * len(self.replicates)
        async with task_group() as group:

            def begin(task: Task, number: int) -> asyncio.Task[Rollout]:
                return group.start(self._one(task, number, rollout_key))

            yield [
                Attempts([begin(each, n) for each in some for n in self.replicates], self.tally)
                for some in tasks
            ]

    async def _one(self, task: Task, replicate: int, rollout_key: RolloutKey) -> Rollout:
        """One attempt, reported and counted."""
        tally = self.tally
        try:
            rollout, reused = await self.attempt(task, replicate, rollout_key)
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
                self.progress.tick("reused" if reused else "done", hard)
            case Failure(_, message):
                self.progress.tick("failed")
                tally.count(message)
        if tally.done == tally.total:
            self.progress.finish()
        return rollout
