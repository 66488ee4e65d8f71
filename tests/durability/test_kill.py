"""Promise: stopped at any moment and started again, a run ends as if it had not been stopped."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
MOMENTS = [
    pytest.param(moment, marks=[pytest.mark.slow] if moment >= 4 else []) for moment in range(40)
]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    """The run that nobody disturbs."""
    return run_uncut(tmp_path_factory.mktemp("uncut"))


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_stopped_by_any_signal_ends_the_same_and_pays_for_no_kept_call_twice(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    await kill_and_resume(moment, uncut, tmp_path / "run", SIGNALS[moment % len(SIGNALS)])
