"""Time limits and cancellation of work that runs at the same time."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading

import pytest

from skillopt.aio import run_blocking, within


async def passes(ticks: int) -> None:
    """Let the event loop go round so often."""
    for _ in range(ticks):
        await asyncio.sleep(0)


@pytest.mark.parametrize("ticks", range(10))
async def test_a_cancellation_at_any_moment_around_the_end_of_the_work_is_not_lost(
    ticks: int,
) -> None:
    released = asyncio.Event()

    async def caller() -> None:
        await within(600, released.wait())
        await asyncio.Event().wait()

    task = asyncio.create_task(caller())
    await passes(5)
    released.set()
    await passes(ticks)
    task.cancel()
    # A lost cancellation leaves the caller waiting for ever: it is not waited for here.
    await passes(20)
    assert task.cancelled()


async def test_work_within_its_time_gives_its_result_or_its_own_error() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("its own")

    assert await within(600, asyncio.sleep(0, "done")) == "done"
    assert await within(None, asyncio.sleep(0, "done")) == "done"
    with pytest.raises(KeyError, match="its own"):
        await within(600, fails())


async def test_work_beyond_its_time_is_cancelled_and_gone_before_the_error_comes() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await passes(3)
            ended.append("cleaned up")

    with pytest.raises(TimeoutError):
        await within(0.01, endless())
    assert ended == ["cleaned up"]


async def test_work_is_cancelled_with_its_caller() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    task = asyncio.create_task(within(600, endless()))
    await passes(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not given to threads there")
def test_a_signal_that_another_thread_receives_stops_the_work_at_once() -> None:
    late: list[str] = []

    async def waiting() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(20, late.append, "only because something else happened")
        threading.Thread(target=interrupt, args=[loop], daemon=True).start()
        await asyncio.Event().wait()

    def interrupt(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_blocking(waiting())
    assert not late
