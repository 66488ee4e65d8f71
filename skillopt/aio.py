"""Structured concurrency: no task outlives the call that started it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import reduce
from operator import add
from typing import TypeVar

from skillopt.errors import Pending

T = TypeVar("T")
R = TypeVar("R")


class Nursery:
    """Tasks that live as long as an `async with` block; the first error cancels the rest."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[object]] = []

    def start(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Start work; await the task for its result."""
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    async def finish(self) -> None:
        """Wait for all tasks; the first error is raised at once."""
        await join(self._tasks)

    async def cancel(self) -> None:
        """Cancel what still runs and wait until it is gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def nursery() -> AsyncGenerator[Nursery, None]:
    """Open a nursery; on exit every task is finished, or cancelled if the block raised."""
    group = Nursery()
    try:
        yield group
        await group.finish()
    finally:
        await group.cancel()


async def join(tasks: Sequence[asyncio.Task[R]]) -> list[R]:
    """Wait for all tasks; the first error is raised at once, as it is.

    Only what is `Pending` waits for the rest, and is raised for all of them together.
    """
    left = set(tasks)
    pending: list[Pending] = []
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task in done and not task.cancelled() and (error := task.exception()):
                if not isinstance(error, Pending):
                    raise error
                pending.append(error)
    if pending:
        raise reduce(add, pending)
    return [task.result() for task in tasks]


async def map_all(function: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
    """Call `function` on every item at once; results keep the order of items."""

    async def call(item: T) -> R:
        return await function(item)

    async with nursery() as group:
        return await join([group.start(call(item)) for item in items])


async def in_thread(function: Callable[..., R], *arguments: object) -> R:
    """Call somebody's function in a thread of its own.

    Unlike a pool, it never queues calls behind each other, and nobody waits for it at exit: a call
    that hangs holds up neither Ctrl-C nor the end of the program.
    """
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(function, *arguments))
        except KeyboardInterrupt:
            # Nobody pressed a key: such a signal reaches the main thread only.
            future.set_exception(RuntimeError("it raised KeyboardInterrupt"))
        except BaseException as error:  # noqa: BLE001 - the caller must hear of it, whatever it is
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="skillopt-callable").start()
    return await asyncio.wrap_future(future)
