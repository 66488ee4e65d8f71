from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from skillopt.aio import TaskGroup
from skillopt.engine.rollouts import WorkerPool

WORK = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30)


@given(st.integers(1, 6), WORK)
def test_needed_work_never_waits_for_idle_work_which_starts_only_where_nobody_else_is(
    size: int, jobs: list[tuple[bool, int]]
) -> None:
    worker_pool = WorkerPool(size)
    needed, idle, wanting = 0, 0, 0

    async def need(turns: int) -> None:
        nonlocal needed, wanting
        wanting += 1
        free = needed < size and wanting == 1
        place = worker_pool.place()
        entered = asyncio.ensure_future(place.__aenter__())
        if free:
            await asyncio.sleep(0)
            assert entered.done()
        await entered
        wanting -= 1
        needed += 1
        assert needed <= size
        for _ in range(turns):
            await asyncio.sleep(0)
        needed -= 1
        await place.__aexit__(None, None, None)

    async def spare(turns: int) -> None:
        nonlocal idle
        async with worker_pool.idle():
            assert needed + idle < size
            assert idle < max(1, size // 2)
            idle += 1
            for _ in range(turns):
                await asyncio.sleep(0)
            idle -= 1

    async def run() -> None:
        async with TaskGroup() as group:
            for ahead, turns in jobs:
                group.start(spare(turns) if ahead else need(turns))

    asyncio.run(run())


async def test_who_stops_waiting_is_waited_for_by_nobody() -> None:
    worker_pool = WorkerPool(1)
    async with worker_pool.place():
        waiting = asyncio.ensure_future(worker_pool.place().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
    async with worker_pool.idle(), worker_pool.place():
        pass
