"""Speculation: idle workers make attempts of the next step before the gate has decided."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain

from skillopt.aio import TaskGroup
from skillopt.core.events import Prefetched
from skillopt.core.skill import Skill
from skillopt.engine.plan import Step
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import SkilloptError


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
        waiting = deque(self.runner.specs(skill, list(chain(*step.batches))))
        begun = 0

        async def work() -> None:
            nonlocal begun
            while waiting:
                async with self.runner.worker_pool.idle():
                    if not waiting:
                        return
                    begun += 1
                    try:
                        made = await self.runner.prefetch(waiting.popleft(), step.id)
                    except SkilloptError:
                        # Whoever needs the attempt will meet the error; more are of no use.
                        waiting.clear()
                    else:
                        begun -= not made

        for _ in range(self.runner.workers // 2):
            self.group.start(work())
        try:
            yield
        finally:
            waiting.clear()
        if begun:
            self.runner.sink.note(Prefetched(step.id, begun))
