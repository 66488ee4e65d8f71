"""Promise: gates that buy evidence are as safe from a kill as the plain one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut


@pytest.fixture(scope="module", params=["paired", "sequential"])
def tested(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp(str(request.param)),
        epochs=1,
        evaluation__gate=request.param,
        evaluation__alpha=0.01,
        evaluation__inconclusive="replicate",
        evaluation__max_replicates=2,
    )


@pytest.mark.parametrize("moment", [0, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_tested_run_killed_at_any_moment_ends_the_same(
    moment: int, tested: Uncut, tmp_path: Path
) -> None:
    assert "inconclusive" in str(tested.says["history.json"])
    await kill_and_resume(moment, tested, tmp_path / "run")
