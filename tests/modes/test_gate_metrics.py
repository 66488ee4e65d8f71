"""The gate's extras in whole runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("uncut"),
        evaluation__gate_metric="soft",
        evaluation__use_semantic_density=True,
    )


def test_a_run_with_a_soft_gate_and_density_ends_above_its_baseline(uncut: Uncut) -> None:
    out = uncut.job.out
    told = json.loads((out / "summary.json").read_text("utf-8"))
    assert told["best_selection_soft"] > told["baseline_selection_soft"]
    assert told["test_delta_hard"] > 0
    records = json.loads((out / "history.json").read_text("utf-8"))
    gated = [record for record in records if "candidate_gate_score" in record]
    assert gated
    assert all(0 <= each["candidate_gate_score"] - each["selection_soft"] <= 0.05 for each in gated)


@pytest.mark.parametrize("moment", range(2))
async def test_a_killed_run_ends_as_the_uncut_one(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    await kill_and_resume(moment, uncut, tmp_path / "run")
