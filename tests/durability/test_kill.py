"""Promise: killed at any moment and started again, a run ends as if it had not been killed."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest
from support_runs import Job, kept_calls, make_data, told, until_quiet

from skillopt.testing.simulator import Simulator

MOMENTS = [
    pytest.param(moment, marks=[pytest.mark.slow] if moment >= 4 else []) for moment in range(30)
]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], int]:
    """The run that nobody disturbs: its data, what it says, and how many calls it takes."""
    folder = tmp_path_factory.mktemp("uncut")
    data = make_data(folder / "data")

    async def run() -> int:
        async with Simulator(seed=1) as sim:
            await Job(url=sim.url, data=data, out=folder / "run").here()
            return await until_quiet(sim)

    calls = asyncio.run(run())
    return data, told(folder / "run"), calls


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_killed_at_any_moment_ends_the_same_and_pays_for_no_kept_call_twice(
    moment: int, uncut: tuple[Path, dict[str, object], int], tmp_path: Path
) -> None:
    data, expected, calls = uncut
    rng = random.Random(moment)
    async with Simulator(seed=1, latency=(0.0, 0.01)) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run")
        process = await job.apart()
        kill_at = rng.randrange(1, calls)
        while sim.stats().requests < kill_at and process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        lost = await until_quiet(sim) - kept_calls(job.out)
        assert 0 <= lost <= job.workers + job.analysts

        again = await job.apart()
        _, errors = await again.communicate()
        assert again.returncode == 0, errors.decode()
        assert told(job.out) == expected
        assert await until_quiet(sim) == calls + lost
