"""Taking out rules that nothing misses, in whole runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support_cli import skillopt
from support_runs import Job, Uncut, kill_and_resume, make_data, run_uncut

from skillopt.testing.simulator import Simulator, initial_skill

USELESS = "- Consider the context of the request."


async def test_a_useless_rule_is_pruned_a_useful_one_is_not_and_the_score_stays(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data", (36, 36, 8))
    (data / "start.md").write_text(f"{initial_skill()}{USELESS}\n", encoding="utf-8")
    more = {
        "optimizer.prune_every": 1,
        "optimizer.prune_tasks": 36,
        "optimizer.use_slow_update": False,
    }
    async with Simulator(noise=0) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, more=more)
        result = await job.here()
    best = result.best_skill
    assert USELESS not in best
    assert "easy to read" not in best
    assert "- An approval flag is Y or N." in best
    assert "- Priorities go from P1 for urgent to P4 for minor." in best
    assert result.state.best.origin == "prune_epoch_01"
    folder = job.out / "prune" / "epoch_01"
    taken = json.loads((folder / "prune_result.json").read_text("utf-8"))
    assert taken["action"] == "accept_new_best"
    rules = {each["text"]: each for each in taken["rules"]}
    assert rules[USELESS]["left_out"]
    assert not rules["- An approval flag is Y or N."]["left_out"]
    assert USELESS not in (folder / "candidate_skill.md").read_text("utf-8")
    assert (folder / "selection_eval" / "results.jsonl").is_file()
    summary = json.loads((job.out / "summary.json").read_text("utf-8"))
    assert summary["best_origin"] == "prune_epoch_01"
    assert "prune_epoch_01" in [each["move"] for each in summary["tried"]]
    shown = await skillopt("show", str(job.out), cwd=tmp_path)
    row = rf"^prune +1 +\d\.\d+ +{result.state.best.value:.3f} +\d+ +\d+ +accepted, new best$"
    assert re.search(row, shown.out, re.MULTILINE), shown.out


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("uncut"),
        epochs=1,
        optimizer__prune_every=1,
        optimizer__prune_tasks=4,
        train__seed=1,
    )


@pytest.mark.parametrize("moment", range(2))
async def test_a_killed_run_ends_as_the_uncut_one(
    moment: int, uncut: Uncut, tmp_path: Path
) -> None:
    assert "prune_epoch" in str(uncut.says["summary.json"])
    await kill_and_resume(moment, uncut, tmp_path / "run")
