"""Thinking again about an epoch, in whole runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support_cli import skillopt
from support_runs import Uncut, kill_and_resume, run_uncut


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(tmp_path_factory.mktemp("uncut"), epochs=3, optimizer__use_meta_reflect=True)


def test_a_run_that_thinks_again_ends_above_its_baseline_and_leaves_its_files(
    uncut: Uncut,
) -> None:
    out = uncut.job.out
    told = json.loads((out / "summary.json").read_text("utf-8"))
    assert told["best_selection_hard"] > told["baseline_selection_hard"]
    assert told["test_delta_hard"] > 0
    assert "meta_reflect" in told["token_summary"]
    folders = sorted((out / "meta_reflect").iterdir())
    assert [folder.name for folder in folders] == ["epoch_01", "epoch_02", "epoch_03"]
    results = [
        json.loads((folder / "meta_reflect_result.json").read_text("utf-8")) for folder in folders
    ]
    tried = [each for each in results if "selection_hard" in each]
    assert tried
    for result in tried:
        folder = out / "meta_reflect" / f"epoch_{result['epoch']:02d}"
        assert result["edits"]
        assert len(result["edits"]) <= result["edit_budget"]
        assert result["reason"]
        assert (folder / "candidate_skill.md").is_file()
        assert (folder / "selection_eval" / "results.jsonl").is_file()


async def test_the_overview_has_a_row_for_each_meta_reflection_and_guidance(uncut: Uncut) -> None:
    done = await skillopt("show", str(uncut.job.out), cwd=uncut.job.out)
    rows = re.findall(
        r"^(meta reflect|guidance) +(\d) .*(?:accept|reject|skip)", done.out, re.MULTILINE
    )
    thoughts = [("meta reflect", str(epoch)) for epoch in (1, 2, 3)]
    guided = [("guidance", str(epoch)) for epoch in (2, 3)]
    assert rows == [thoughts[0], thoughts[1], guided[0], thoughts[2], guided[1]]


async def test_a_killed_run_ends_as_the_uncut_one(uncut: Uncut, tmp_path: Path) -> None:
    for moment in range(2):
        await kill_and_resume(moment, uncut, tmp_path / f"run{moment}")
