"""The models of a world in this process, and a clock that does not wait for them.

A run of ours that asks them takes seconds instead of minutes, comes out as one by HTTP, and its
wall time with any latency is exact however busy the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TypeVar

from world_optimizer import SimulatedOptimizer
from worlds import CASE, Scene, Split

from skillopt.core.chat import Request

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Asks `skip` before it waits for a time: True says that it has passed."""

    def __init__(self, skip: Callable[[float], bool]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or (timeout is not None and (timeout <= 0 or self._skip(timeout))):
            return found
        return super().select()


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands while something is done and jumps where there is only waiting."""

    def __init__(self) -> None:
        self._now = 0.0
        self._threads = 0
        super().__init__(_Selector(self._skip))

    def time(self) -> float:
        return self._now

    def _skip(self, seconds: float) -> bool:
        """While a thread works, nothing is skipped: its end is what is waited for."""
        if not self._threads:
            self._now += seconds
        return not self._threads

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        self._threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self._threads -= 1


def skipping(work: Coroutine[None, None, T]) -> tuple[T, float]:
    """What a coroutine returns, and the seconds that it took by its own clock."""
    loop = SkippingLoop()
    try:
        return loop.run_until_complete(work), loop.time()
    finally:
        loop.close()


def said(request: Request, role: str) -> str:
    return "\n\n".join(message.text for message in request.messages if message.role == role)


class Target:
    def __init__(self, scene: Scene, latency: float = 0.0) -> None:
        self._scene = scene
        self._latency = latency
        self._asked: Counter[tuple[int, str]] = Counter()
        self.fingerprint = "target"
        self.served: Counter[str] = Counter()

    async def __call__(self, request: Request) -> str:
        await asyncio.sleep(self._latency)
        found = CASE.search(said(request, "user"))
        if found is None:
            return "OK"
        case, skill = self._scene.cases[int(found[1])], said(request, "system")
        self.served[case.id.partition("-")[0]] += 1
        key = (case.number, " ".join(skill.split()))
        self._asked[key] += 1
        answer = self._scene.answer(case, skill, self._asked[key])
        return f"The papers are clear.\n<answer>{answer}</answer>"


class Optimizer:
    def __init__(self, scene: Scene, latency: float = 0.0) -> None:
        self._optimizer = SimulatedOptimizer(scene)
        self._latency = latency
        self.fingerprint = "optimizer"
        self.served = 0

    async def __call__(self, request: Request) -> str:
        await asyncio.sleep(self._latency)
        self.served += 1
        return self._optimizer.reply(said(request, "system"), said(request, "user"))


def rows(scene: Scene, split: Split) -> list[dict[str, object]]:
    """The tasks of a split as `skillopt.train` takes them."""
    cases = scene.split(split)
    return [
        {"id": case.id, "input": case.question, "answer": " ".join(case.right)} for case in cases
    ]
