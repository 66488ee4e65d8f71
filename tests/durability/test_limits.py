"""Promise: a limit holds over any number of kills."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support_runs import Job, Uncut, facts, run_uncut

from skillopt.store.cache import SqliteCache
from skillopt.testing.simulator import Simulator

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
MOMENTS = [
    pytest.param(moment, marks=[pytest.mark.slow] if moment >= 2 else []) for moment in range(16)
]
PRICES = {"model.input_price": 1.0, "model.output_price": 4.0, "model.max_tokens": 400}


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    """The run that nobody disturbs."""
    more = {key.replace(".", "__"): value for key, value in PRICES.items()}
    return run_uncut(tmp_path_factory.mktemp("uncut"), epochs=1, **more)


async def run_and_stop(job: Job, sim: Simulator, after: int, by: signal.Signals) -> int | None:
    """Start, and stop once so many more requests have arrived; the code if it ended before."""
    stop_at = sim.stats().requests + after
    process = await job.apart()
    while sim.stats().requests < stop_at and process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    code = process.returncode
    if code is None:
        process.send_signal(by)
    await process.communicate()
    return code


async def ended(job: Job) -> int | None:
    process = await job.apart()
    _, errors = await process.communicate()
    assert b"Traceback" not in errors, errors.decode()
    return process.returncode


@pytest.mark.parametrize("moment", MOMENTS)
async def test_no_more_calls_are_served_than_allowed_however_often_a_run_is_stopped(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    by = SIGNALS[moment % len(SIGNALS)]
    limit = uncut.calls // 2
    pauses = _pauses(moment)
    async with Simulator(seed=1, latency=(0.01, 0.03)) as sim:
        job = replace(uncut.job, url=sim.url, out=tmp_path / "run")
        capped = replace(job, more={**job.more, "limits.calls": limit})
        for _ in range(3):
            code = await run_and_stop(capped, sim, next(pauses), by)
            assert sim.stats().requests <= limit
            assert code in {None, 4}
        assert await ended(capped) == 4
        assert sim.stats().requests <= limit
        spent, lost = _counted(job.out)
        assert spent + lost == limit, "nothing that was allowed is withheld"
        assert lost > 0
        assert await ended(capped) == 4
        assert sim.stats().requests <= limit
        more = uncut.calls + lost
        assert await ended(replace(job, more={**job.more, "limits.calls": more})) == 0
        assert sim.stats().requests <= more
    assert facts(job.out) == uncut.facts
    told = json.loads((job.out / "summary.json").read_text("utf-8"))
    assert told["interrupted_calls"]["calls"] == lost
    assert told["receipt"]["_total"]["calls"] == uncut.calls


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_was_served_costs_no_more_than_allowed_however_often_a_run_is_killed(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    name, cap = (("limits.tokens", 40_000), ("limits.dollars", 0.06))[moment % 2]
    pauses = _pauses(moment)
    async with Simulator(seed=1, latency=(0.01, 0.03)) as sim:
        job = replace(uncut.job, url=sim.url, out=tmp_path / "run")
        job = replace(job, more={**job.more, name: cap})
        for _ in range(3):
            code = await run_and_stop(job, sim, next(pauses), signal.SIGKILL)
            assert code in {None, 4}
        assert await ended(job) == 4
    cache = SqliteCache(job.out / "cache.sqlite", read_only=True)
    used = sum(cache.spent().values(), cache.interrupted())
    cache.close()
    # What was under way at a kill is counted at its worst case, so this bounds what was served.
    assert (used.dollars if name == "limits.dollars" else used.input + used.output) <= cap
    assert used.calls >= sim.stats().requests


def _counted(out: Path) -> tuple[int, int]:
    """Calls that were paid, and those under way when the run ended."""
    cache = SqliteCache(out / "cache.sqlite", read_only=True)
    spent = sum(usage.calls for usage in cache.spent().values())
    lost = cache.interrupted().calls
    cache.close()
    return spent, lost


def _pauses(moment: int) -> Iterator[int]:
    chance = random.Random(moment)
    while True:
        yield chance.randrange(1, 25)
