"""Promise: a run that works ahead, killed at any moment, ends the same and pays nothing twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support_runs import Uncut, facts, finished, kept_calls, killed, run_uncut, until_quiet

from skillopt.testing.simulator import Simulator

MOMENTS = [pytest.param(n, marks=[pytest.mark.slow] if n >= 3 else []) for n in range(20)]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("speculation"), engine__speculate=True, train__batch_size=8
    )


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_speculating_run_survives_a_kill(moment: int, uncut: Uncut, tmp_path: Path) -> None:
    """How much is attempted ahead depends on time; facts, and what is paid for, do not."""
    async with Simulator(seed=1, latency=(0.0, 0.01)) as sim:
        job = replace(uncut.job, url=sim.url, out=tmp_path / "run")
        lost = await killed(job, sim, moment, uncut.calls)
        await finished(job)
        assert facts(job.out) == uncut.facts
        assert await until_quiet(sim) == kept_calls(job.out) + lost
