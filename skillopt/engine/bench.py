"""Trying a skill on tasks: many attempts at once, read in a fixed order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from skillopt.aio import map_all
from skillopt.core.journal import Journal
from skillopt.core.ports import Environment, Episode, Harness, TellsDetails, Work
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score, Trajectory
from skillopt.core.seeds import blocks
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.series import Attempts, Conditions, Series, Tally
from skillopt.engine.slots import Slots
from skillopt.errors import EnvironmentFault, HarnessError, RolloutError, attributed_to


def _never(_: Evaluation) -> bool:
    return False


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
    score_timeout: float | None = None
    """Seconds after which a scorer is given up; None: it is waited for."""
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
        with self._series(phase, total, replicates) as series:
            async with series.start(tasks, self.conditions(skill)) as attempts:
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
        with self._series(phase, total, replicates) as series:
            for some in blocks(tasks, max(1, len(tasks)) if block == 0 else block):
                if enough(evaluation):
                    break
                async with series.start([some], self.conditions(skill)) as (attempts,):
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
        with self._series(phase, total, replicates) as series:

            async def one(trial: tuple[Skill, Sequence[Task]]) -> Evaluation:
                skill, tasks = trial
                async with series.start([tasks], self.conditions(skill)) as (attempts,):
                    return Evaluation.of(skill.digest, split, await attempts.all())

            return await map_all(one, trials)

    async def repeat(
        self, known: Evaluation, skill: Skill, tasks: Sequence[Task], phase: str, replicate: int
    ) -> Evaluation:
        """What is known of a skill, together with one more attempt at each of these tasks.

        They may be few, so a share of failures is one of everything that is known.
        """
        with self._series(phase, len(tasks), (replicate,), beside=known.n) as series:
            async with series.start([tasks], self.conditions(skill)) as (attempts,):
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

    @contextmanager
    def _series(
        self, phase: str, total: int, replicates: Sequence[int], *, beside: int = 0
    ) -> Generator[Series, None, None]:
        with self.journal.phase(phase, total) as progress:
            yield Series(self._kept, replicates, progress, Tally(total, self.max_failed, beside))

    async def _kept(
        self, task: Task, replicate: int, conditions: Conditions
    ) -> tuple[Rollout, bool]:
        async def make() -> Rollout:
            async with self.slots:
                return await self._roll(task, replicate, conditions)

        return await self.work.rollout(conditions.key(task, replicate), make)

    async def _roll(self, task: Task, replicate: int, conditions: Conditions) -> Rollout:
        named = f"task {task.id!r}"
        trajectory = None
        details: Mapping[str, object] = {}
        try:
            with attributed_to(EnvironmentFault, named):
                async with self.environment.open(task) as episode:
                    with attributed_to(HarnessError, named):
                        trajectory = await self.harness.run(
                            episode, conditions.skill, replicate=replicate
                        )
                    outcome = await self._score(episode, trajectory, named)
                    if isinstance(episode, TellsDetails):
                        details = episode.details(trajectory)
        except RolloutError as error:
            outcome = Failure(type(error).__name__, str(error))
        return Rollout(
            task=task.id,
            kind=task.kind,
            skill=conditions.digest,
            outcome=outcome,
            trajectory=trajectory,
            replicate=replicate,
            details=details,
        )

    async def _score(self, episode: Episode, trajectory: Trajectory, named: str) -> Score:
        async def judged() -> Score:
            # What ends a program must not leave a task of its own, or it ends ours.
            with attributed_to(EnvironmentFault, named):
                return await episode.score(trajectory)

        try:
            return await asyncio.wait_for(judged(), self.score_timeout)
        except asyncio.TimeoutError:
            raise EnvironmentFault(
                f"{named}: the scorer did not finish within {self.score_timeout:g} s "
                "(env.exec_timeout)"
            ) from None

    def conditions(self, skill: Skill) -> Conditions:
        """Under which tasks are attempted with a skill."""
        return Conditions(
            skill, skill.digest, self.environment.fingerprint, self.harness.fingerprint
        )
