"""The ways to look back at an epoch, in whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut

Mode = tuple[str, bool]


@pytest.fixture(scope="module", params=[("changed", False), ("unchanged", True)], ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    return cast("Mode", request.param)


@pytest.fixture(scope="module")
def uncut(mode: Mode, tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    policy, gated = mode
    return run_uncut(
        tmp_path_factory.mktemp("uncut"),
        epochs=3,
        optimizer__longitudinal_pair_policy=policy,
        optimizer__slow_update_gate_with_selection=gated,
        optimizer__slow_update_samples=6,
    )


def test_a_run_that_looks_back_ends_above_its_baseline_and_leaves_its_files(
    mode: Mode, uncut: Uncut
) -> None:
    policy, gated = mode
    out = uncut.job.out
    told = json.loads((out / "summary.json").read_text("utf-8"))
    assert told["test_delta_hard"] > 0
    folder = out / "slow_update" / "epoch_02"
    result = json.loads((folder / "slow_result.json").read_text("utf-8"))
    shown = json.loads((folder / "comparison_pairs.json").read_text("utf-8"))
    tried = json.loads((folder / "comparison_pairs_all.json").read_text("utf-8"))
    changed = {"improved", "regressed"}
    assert shown
    assert all((row["category"] in changed) == (policy == "changed") for row in shown)
    assert [row for row in tried if row in shown] == shown
    assert (len(shown), len(tried)) == (result["n_pairs"], result["n_pairs_all"])
    assert {"id", "task", "category", "prev", "curr"} == set(shown[0])
    assert {"hard", "soft", "predicted_answer", "fail_reason"} == set(shown[0]["prev"])
    assert result["action"] in ({"accept_new_best", "reject"} if gated else {"force_accept"})
    assert result["slow_update_content"]
    assert result["update_origin"] == "slow_update_epoch_02"
    lessons = json.loads((out / "meta_skill/epoch_02/meta_skill_result.json").read_text("utf-8"))
    assert lessons["action"] == "write_meta_skill"


async def test_a_killed_run_ends_as_the_uncut_one(uncut: Uncut, tmp_path: Path) -> None:
    for moment in range(2):
        await kill_and_resume(moment, uncut, tmp_path / f"run{moment}")
