"""Promise: a run that explores learns, survives a kill, and tells what it looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support_runs import Job, Uncut, kill_and_resume, make_data, run_uncut

from skillopt.testing.simulator import Simulator

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


async def test_a_portfolio_asks_whose_turn_it_is_by_what_the_record_says(tmp_path: Path) -> None:
    more = {"gradient.proposer": ["patterns", "explore"], "gradient.portfolio_after": 1}
    data = make_data(tmp_path / "data")
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", batch=10, more=more)
        await job.here()
    fruitless, used = 0, list[str]()
    for row in json.loads((job.out / "history.json").read_text(encoding="utf-8")):
        used.append(("patterns", "explore")[fruitless % 2])
        folder = job.out / f"steps/step_{row['step']:04d}"
        patches = [json.loads(each.read_text("utf-8")) for each in folder.glob("patches/*.json")]
        made_by = {edit["proposer"] for each in patches for edit in each["patch"]["edits"]}
        assert made_by <= {used[-1]}
        fruitless = 0 if row["action"].startswith("accept") else fruitless + 1
    assert set(used) == {"patterns", "explore"}
    assert used[0] == "patterns"
