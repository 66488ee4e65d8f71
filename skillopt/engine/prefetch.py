"""Idle workers make attempts before they are needed: certain ones, or by speculation."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skillopt.aio import TaskGroup
from skillopt.core.events import Prefetched
from skillopt.core.rollout import Failure, RolloutSpec
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import SkilloptError


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Begins attempts of a later move.

    They are kept like all finished work. So a move that needs them finds them, and nothing
    depends on whether, when or how many were made.
    """

    runner: RolloutRunner
    group: TaskGroup
    """What is under way at the end of the block is finished there."""
    certain: bool = False
    """Whether the move needs them whatever is decided until then: if so, they are no speculation,
    and share the places of the worker pool with all others. Else they are made beside these, so
    that they delay nobody."""

    @asynccontextmanager
    async def of(
        self,
        move: str,
        specs: Iterable[RolloutSpec],
        *,
        due_next: bool = False,
        told: bool = True,
    ) -> AsyncGenerator[None, None]:
        """Begin attempts for the length of this block.

        Half of the workers take part, so that places are left for what comes meanwhile; all of
        them where nothing does, because these attempts are `due_next`. If it is to be `told`, a
        note says how many were begun.
        """
        waiting = deque(specs)
        pool = self.runner.worker_pool
        begun = 0

        async def work() -> None:
            nonlocal begun
            await asyncio.sleep(0)  # what the block itself begins with comes first
            while waiting:
                async with pool.idle_place() if self.certain else pool.idle():
                    if not waiting:
                        return
                    begun += 1
                    try:
                        rollout, cached = await self.runner.prefetch(
                            waiting.popleft(), move, certain=self.certain
                        )
                    except SkilloptError:
                        # Whoever needs the attempt will meet the error; more are of no use.
                        waiting.clear()
                    else:
                        begun -= cached
                        if isinstance(rollout.outcome, Failure):
                            waiting.clear()  # as above

        workers = self.runner.workers
        for _ in range(min(len(waiting), workers if due_next else workers // 2)):
            self.group.start(work())
        try:
            yield
        finally:
            waiting.clear()
        if begun and told and not self.certain:
            self.runner.sink.note(Prefetched(move, begun))
