"""Promise: every mode of reflection learns, survives a kill and leaves what is documented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_runs import Job, Uncut, kill_and_resume, make_data, run_uncut

from skillopt.testing.simulator import Simulator

SKILL_AWARE: dict[str, object] = {
    "optimizer.use_skill_aware_reflection": True,
    "optimizer.skill_aware_consolidate_threshold": 3,
}
MOMENTS = [pytest.param(n, marks=[pytest.mark.slow] if n >= 2 else []) for n in range(10)]


@pytest.fixture(scope="module")
def skill_aware(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("skill_aware"),
        optimizer__use_skill_aware_reflection=True,
        optimizer__skill_aware_consolidate_threshold=3,
    )


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_skill_aware_run_survives_a_kill(
    moment: int, skill_aware: Uncut, tmp_path: Path
) -> None:
    await kill_and_resume(moment, skill_aware, tmp_path / "run")


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("deep"),
        gradient__use_deep_reflect=True,
        gradient__deep_reflect_failures=3,
        gradient__deep_reflect_successes=1,
    )


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_with_probes_survives_a_kill(moment: int, deep: Uncut, tmp_path: Path) -> None:
    await kill_and_resume(moment, deep, tmp_path / "run")


def test_probes_are_chosen_bounded_and_kept_and_the_run_learns(deep: Uncut) -> None:
    out = deep.job.out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["best_selection_hard"] > summary["baseline_selection_hard"] + 0.3
    first = [json.loads(each.read_text()) for each in out.glob("steps/step_0001/deep_reflect/*")]
    assert len(first) == 4
    kinds = {turn["probe"] for each in first for turn in each["turns"]}
    assert kinds == {"ask", "rerun"}
    assert all(len(each["turns"]) <= 3 and each["conclusion"] for each in first)
    stages = summary["token_summary"]
    assert stages["deep_reflect"]["calls"] >= stages["probe"]["calls"] > 0


async def test_reminders_help_a_forgetful_target_and_are_told(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (40, 30, 20))
    async with Simulator(seed=1, noise=0.3) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", more=SKILL_AWARE)
        result = await job.here()
    first, best = result.state.initial, result.state.best
    assert best.value > first.value + 0.3
    assert best.skill.notes
    steps = [json.loads(each.read_text()) for each in job.out.glob("steps/*/step_record.json")]
    kept = [each for each in steps if each["n_appendix_notes_added"]]
    assert kept
    assert sum(each["n_appendix_notes_consolidated"] for each in steps) > 0
    for step in steps:
        folder = job.out / f"steps/step_{step['step']:04d}"
        notes = json.loads((folder / "appendix_notes.json").read_text())
        assert len(notes["step_notes"]) == step["n_execution_lapse_notes"]
        assert len(notes["appendix_after"]) == step["n_appendix_notes_total"]
