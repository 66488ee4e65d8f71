"""What is spent outside of model calls counts like what is spent in them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from skillopt.aio import TaskGroup
from skillopt.core.chat import Usage
from skillopt.errors import BudgetSpent
from skillopt.model.budget import Budget, Limits, Meter
from skillopt.store.cache import SqliteCache
from skillopt.store.receipts import receipt

AGENT = Usage(3, 900, 100, dollars=0.02)


def opened(path: Path, limits: Limits) -> tuple[SqliteCache, Budget]:
    cache = SqliteCache(path)
    return cache, Budget(Meter.after(cache.spent()), limits, cache)


async def test_a_charge_is_kept_for_later_processes_and_stands_in_the_receipt(
    tmp_path: Path,
) -> None:
    cache, budget = opened(tmp_path / "cache.sqlite", Limits())
    cache.enter("step 1")
    for _ in range(2):
        await budget.charge(AGENT, role="target", stage="rollout")
    assert budget.meter.totals == {("target", "rollout"): AGENT + AGENT}
    cache.close()
    cache, budget = opened(tmp_path / "cache.sqlite", Limits())
    assert budget.meter.total == AGENT + AGENT
    assert cache.spent() == {("step 1", "target", "rollout"): AGENT + AGENT}
    told = json.loads(json.dumps(receipt(cache.spent())))
    assert told["target"]["rollout"]["calls"] == 6
    cache.close()


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from skillopt.core.chat import Usage
from skillopt.model.budget import Budget, Limits, Meter
from skillopt.store.cache import SqliteCache
cache = SqliteCache(Path(sys.argv[1]))
budget = Budget(Meter(), Limits(), cache)
asyncio.run(budget.charge(Usage(3, 900, 100, dollars=0.02), role="target", stage="rollout"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
async def test_a_charge_survives_a_kill_at_once_and_counts_in_the_limits_of_the_next_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cache.sqlite"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, str(path))
    assert await process.wait() == -signal.SIGKILL
    cache, budget = opened(path, Limits(tokens=1900))
    assert budget.meter.total == AGENT
    with pytest.raises(
        BudgetSpent, match=r"limits.tokens is exceeded by 100: 1,900 allowed, 2,000"
    ):
        await budget.charge(AGENT, role="target", stage="rollout")
    cache.close()
    cache, budget = opened(path, Limits(tokens=1900))
    with pytest.raises(BudgetSpent, match=r"limits.tokens is reached: 1,900 allowed, 2,000 were"):
        await budget.check()
    cache.close()


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(calls=5), "limits.calls is exceeded by 1: 5 allowed, 6 were made"),
        (Limits(dollars=0.03), r"limits.dollars is exceeded by \$0.0100"),
    ],
)
async def test_a_charge_that_exceeds_a_limit_ends_the_run_and_is_counted(
    limits: Limits, told: str
) -> None:
    budget = Budget(Meter(), limits)
    await budget.charge(AGENT, role="target", stage="rollout")
    with pytest.raises(BudgetSpent, match=told) as caught:
        await budget.charge(AGENT, role="target", stage="rollout")
    assert f"raise limits.{'calls' if limits.calls else 'dollars'} and run" in str(caught.value)
    assert budget.meter.total == AGENT + AGENT
    with pytest.raises(BudgetSpent, match=told):
        async with budget.hold(Usage(), "optimizer", "analyst"):
            pytest.fail("no call starts any more")


async def test_what_exactly_fits_is_allowed_and_nothing_starts_after_it() -> None:
    budget = Budget(Meter(), Limits(calls=3))
    await budget.check()
    await budget.charge(AGENT, role="target", stage="rollout")
    with pytest.raises(BudgetSpent, match=r"limits.calls is reached: 3 allowed, 3 were made"):
        await budget.check()


async def test_time_that_is_up_lets_nothing_start() -> None:
    now = 0.0
    budget = Budget(Meter(), Limits(minutes=1), clock=lambda: now)
    await budget.check()
    now = 60.0
    with pytest.raises(BudgetSpent, match=r"limits.minutes is reached"):
        await budget.check()


async def test_calls_under_way_are_not_cut_off_by_a_charge_that_exceeds_a_limit() -> None:
    budget = Budget(Meter(), Limits(calls=3))
    started, finish = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    async def call() -> None:
        async with budget.hold(Usage(1), "optimizer", "analyst") as pay:
            started.set()
            await finish.wait()
            pay(Usage(1))
            order.append("call")

    async def charge() -> None:
        with pytest.raises(BudgetSpent):
            await budget.charge(Usage(4), role="target", stage="rollout")
        order.append("charge")

    async with TaskGroup() as group:
        group.start(call())
        await started.wait()
        group.start(charge())
        await asyncio.sleep(0)
        finish.set()
    assert order == ["call", "charge"]
