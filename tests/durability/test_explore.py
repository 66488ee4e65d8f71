"""Promise: a run that explores learns, survives a kill, and tells what it looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut

MOMENTS = [pytest.param(n, marks=[pytest.mark.slow] if n >= 2 else []) for n in range(10)]


@pytest.fixture(scope="module")
def exploring(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(tmp_path_factory.mktemp("explore"), optimizer__proposer="explore")


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_that_explores_survives_a_kill(
    moment: int, exploring: Uncut, tmp_path: Path
) -> None:
    await kill_and_resume(moment, exploring, tmp_path / "run")


def test_a_run_that_explores_ends_above_its_baseline_and_tells_what_it_saw(
    exploring: Uncut,
) -> None:
    out = exploring.job.out
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["best_selection_hard"] > summary["baseline_selection_hard"] + 0.3
    patch = json.loads(
        (out / "steps/step_0001/patches/minibatch_fail_000.json").read_text(encoding="utf-8")
    )
    assert patch["trail"][0] == "list"
    assert any(each.startswith("read 001-failed") for each in patch["trail"])
    assert {each["proposer"] for each in patch["patch"]["edits"]} == {"explore"}
    assert all(set(each["task_ids"]) <= set(patch["task_ids"]) for each in patch["patch"]["edits"])
    assert summary["token_summary"]["explore"]["calls"] >= 4
