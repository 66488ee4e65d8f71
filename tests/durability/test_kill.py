"""Promise: killed at any moment and started again, a run ends as if it had not been killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut

MOMENTS = [
    pytest.param(moment, marks=[pytest.mark.slow] if moment >= 4 else []) for moment in range(30)
]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    """The run that nobody disturbs."""
    return run_uncut(tmp_path_factory.mktemp("uncut"))


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_killed_at_any_moment_ends_the_same_and_pays_for_no_kept_call_twice(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    await kill_and_resume(moment, uncut, tmp_path / "run")
