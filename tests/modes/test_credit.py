"""Training by the recipe: unsolved tasks first; edits are kept for what fails without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support_runs import Uncut, kill_and_resume, run_uncut

from skillopt import open_run
from skillopt.config.recipe import RECIPE
from skillopt.core.facts import Stepped

SETTINGS: dict[str, Any] = {
    **{key.replace(".", "__"): value for key, value in RECIPE.items()},
    "train__batch_size": 25,
}


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(tmp_path_factory.mktemp("credit"), **SETTINGS)


def steps(uncut: Uncut) -> list[Stepped]:
    events = [entry.event for entry in open_run(uncut.job.out).events()]
    return [event for event in events if isinstance(event, Stepped)]


def test_training_ends_far_above_its_baseline(uncut: Uncut) -> None:
    summary = json.loads((uncut.job.out / "summary.json").read_text(encoding="utf-8"))
    assert summary["test_delta_hard"] > 0.7


def test_a_task_that_passed_is_not_attempted_again_with_the_same_skill(uncut: Uncut) -> None:
    passed: set[str] = set()
    attempted = 0
    for step in steps(uncut):
        assert passed.isdisjoint(step.practice)
        passed |= {task for task, well in step.practice.items() if well}
        attempted += len(step.practice)
        if step.decision is not None and step.decision.accepted:
            passed = set()
    assert attempted > 40


def test_every_edit_of_a_candidate_was_missed_when_it_was_left_out(uncut: Uncut) -> None:
    drafts = [step.draft for step in steps(uncut) if step.decision is not None]
    assert drafts
    for draft in drafts:
        assert draft.leading.chosen.reasoning.startswith("tasks that fail again without a proposal")
        reasons = [dropped.reason for dropped in draft.leading.chosen.dropped]
        assert len(draft.merged.proposals) == len(draft.leading.chosen.proposals) + len(reasons)
        assert all(reasons)


@pytest.mark.parametrize("moment", [0, 1])
async def test_a_run_with_credit_that_is_killed_ends_as_if_it_had_not_been(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    await kill_and_resume(moment, uncut, tmp_path / "run")


def test_the_record_is_the_same_with_one_worker(uncut: Uncut, tmp_path: Path) -> None:
    settings = {**SETTINGS, "env__workers": 1, "gradient__analyst_workers": 1}
    alone = run_uncut(tmp_path, **settings)
    assert steps(alone) == steps(uncut)
