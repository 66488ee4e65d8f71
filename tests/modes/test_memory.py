"""The two memories in whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut


@pytest.fixture(scope="module", params=["run", "epoch"])
def uncut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("uncut"),
        epochs=3,
        optimizer__memory=cast("str", request.param),
        optimizer__learning_rate=2,
        optimizer__min_learning_rate=1,
    )


def test_a_run_with_this_memory_ends_above_its_baseline(uncut: Uncut) -> None:
    out = uncut.job.out
    told = json.loads((out / "summary.json").read_text("utf-8"))
    assert told["best_selection_hard"] > told["baseline_selection_hard"]
    assert told["test_delta_hard"] > 0
    for record in json.loads((out / "history.json").read_text("utf-8")):
        assert record["n_dropped_repeats"] >= 0


async def test_a_killed_run_ends_as_the_uncut_one(uncut: Uncut, tmp_path: Path) -> None:
    for moment in range(2):
        await kill_and_resume(moment, uncut, tmp_path / f"run{moment}")
