"""Structured concurrency: no task outlives the call that started it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import TypeVar

from skillopt.errors import Pending

T = TypeVar("T")
R = TypeVar("R")


class TaskGroup:
    """Tasks that live as long as an `async with` block; the first error cancels the rest.

    On exit every task is finished, or cancelled if the block raised.
    """

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[object]] = []

    async def __aenter__(self) -> TaskGroup:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await join(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Start work; await the task for its result."""
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    async def cancel(self) -> None:
        """End what is under way; nobody needs it any more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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

    async with TaskGroup() as group:
        return await join([group.start(call(item)) for item in items])


async def within(seconds: float | None, work: Coroutine[object, object, T]) -> T:
    """The result of work, which is cancelled when it takes longer; None: it may take any time.

    Unlike `asyncio.wait_for` before Python 3.12, it never loses a cancellation that comes at the
    moment at which the work ends.

    Raises:
        TimeoutError: It took longer.
        RuntimeError: It raised CancelledError, although nobody cancelled it.
    """
    async with TaskGroup() as group:
        task = group.start(work)
        await asyncio.wait((task,), timeout=seconds)
        if not task.done():
            raise TimeoutError
        if task.cancelled():
            raise RuntimeError("it raised CancelledError")
        return task.result()


async def unless(event: asyncio.Event, work: Coroutine[object, object, T]) -> T | None:
    """The result of work; None if the event comes first, for then the work is cancelled."""
    tasks = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_CONTROL = (
    StopIteration,
    GeneratorExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
)
"""Exceptions that Python and asyncio take for something else than an error, if they pass through a
future or a coroutine. In a thread of a function's own, nobody pressed a key or cancelled it."""


def _as_error(error: BaseException) -> BaseException:
    """An exception of somebody's function, such that a future can carry it."""
    if not isinstance(error, _CONTROL):
        return error
    carried = RuntimeError(f"it raised {type(error).__name__}")
    carried.__cause__ = error
    return carried


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
        except BaseException as error:  # noqa: BLE001 - the caller must hear of it, whatever it is
            future.set_exception(_as_error(error))

    threading.Thread(target=run, daemon=True, name="skillopt-callable").start()
    return await asyncio.wrap_future(future)


async def in_task(work: Awaitable[R]) -> R:
    """Await what somebody's function returned, in a task of its own.

    So an exception of theirs that means a cancellation is told from a cancellation of ours, and
    none of theirs ends the event loop. Ctrl-C does, since it may come at any moment.
    """
    result: Future[R] = Future()

    async def run() -> None:
        try:
            result.set_result(await work)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the caller must hear of it, whatever it is
            result.set_exception(_as_error(error))

    await within(None, run())
    return result.result()


_LISTEN = 0.2
"""Seconds between two looks for Ctrl-C where waiting cannot be interrupted."""


async def woken_by_signals(work: Coroutine[object, object, T]) -> T:
    """Await work in a loop that every signal wakes up, so that its handler runs at once.

    Without this, a signal that the system gives to another thread, or that arrives just before the
    loop waits, is noticed only when something else happens.
    """
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        return await work
    loop = asyncio.get_running_loop()
    reading, writing = socket.socketpair()
    with reading, writing:
        reading.settimeout(0)
        writing.settimeout(0)
        loop.add_reader(reading, reading.recv, 4096)
        before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        try:
            return await work
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(reading)


def run_blocking(work: Coroutine[object, object, T]) -> T:
    """Run to the end for a caller that does not await.

    Where an event loop is running already, as in a notebook, the work gets a loop of its own in
    another thread. Ctrl-C cancels it, waits until it has ended in order, and is raised here.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(woken_by_signals(work))
    result: Future[T] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[object] | None]] = Future()

    async def guarded() -> T:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    def run() -> None:
        try:
            result.set_result(context.run(asyncio.run, guarded()))
        except BaseException as error:  # noqa: BLE001 - the caller must hear of it, whatever it is
            result.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=run, daemon=True, name="skillopt-run").start()
    with _interruptible():
        try:
            while not result.done():
                wait([result], _LISTEN)
        except KeyboardInterrupt:
            loop, task = started.result()
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)
            wait([result])
            raise
    return result.result()


@contextmanager
def _interruptible() -> Generator[None, None, None]:
    """Ctrl-C raises here, whatever a running event loop would make of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
