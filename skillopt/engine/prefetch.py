"""Speculation: idle workers make attempts of the next step before the gate has decided."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skillopt.aio import TaskGroup
from skillopt.core.events import Prefetched
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.plan import Step
from skillopt.engine.rollout_group import RolloutKey
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import SkilloptError


@dataclass(slots=True)
class _NextStep:
    """A step that may come, and its tasks that nobody has begun."""

    move: str
    rollout_key: RolloutKey
    left: deque[Task]
    begun: int = 0


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Begins a step's attempts while it is still open whether the skill stays.

    They are kept like all finished work. So a step that needs them finds them, and nothing
    depends on whether, when or how many were made.
    """

    runner: RolloutRunner
    group: TaskGroup
    """What is under way at the decision is finished there, and delays nobody."""

    @asynccontextmanager
    async def of(self, step: Step, skill: Skill) -> AsyncGenerator[None, None]:
        """Begin attempts of a step for the length of this block."""
        tasks = deque(task for batch in step.batches for task in batch)
        guess = _NextStep(step.id, self.runner.rollout_key(skill), tasks)
        for _ in range(self.runner.workers // 2):
            self.group.start(self._work_on(guess))
        try:
            yield
        finally:
            guess.left.clear()
        if guess.begun:
            self.runner.sink.note(Prefetched(step.id, guess.begun))

    async def _work_on(self, guess: _NextStep) -> None:
        while guess.left:
            async with self.runner.worker_pool.idle():
                if guess.left:
                    await self._attempt(guess, guess.left.popleft())

    async def _attempt(self, guess: _NextStep, task: Task) -> None:
        guess.begun += 1
        try:
            made = await self.runner.prefetch(task, guess.rollout_key, guess.move)
        except SkilloptError:
            # Whoever needs the attempt will meet the error; there is no use in more of them.
            guess.left.clear()
        else:
            guess.begun -= not made
