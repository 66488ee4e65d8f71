"""The ways to look back at an epoch, in whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from support_cli import make_project
from support_cli import skillopt as run_command
from support_runs import Uncut, kill_and_resume, run_uncut

import skillopt
from skillopt.testing.simulator import Simulator

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


def train_with_bad_guidance(out: Path, **settings: object) -> dict[str, Any]:
    """Guidance spoils every answer, and so does what steps propose."""

    def target(prompt: str) -> str:
        spoilt = "GUIDANCE" in prompt or "SPOILT" in prompt
        return "wrong" if spoilt else prompt.rsplit(maxsplit=1)[-1]

    def optimizer(prompt: str) -> str:
        if "slow_update_content" in prompt:
            return json.dumps({"reasoning": "r", "slow_update_content": "- GUIDANCE"})
        edit = {"op": "append", "target": "", "content": "- SPOILT", "why": "w", "tasks": ["i0"]}
        return json.dumps({"reasoning": "r", "patterns": [], "edits": [edit]})

    items = [{"id": f"i{n}", "input": f"Say word{n}", "answer": f"word{n}"} for n in range(12)]
    skillopt.train(
        train=items[:4],
        val=items[4:8],
        test=items[8:],
        skill="Say it.",
        target=target,
        optimizer=optimizer,
        out=out,
        settings={
            "num_epochs": 2,
            "batch_size": 4,
            "use_meta_skill": False,
            "select_mode": "ranking",  # the published protocol, not the recipe
            **settings,
        },
    )
    return json.loads((out / "summary.json").read_text("utf-8"))


def test_forced_guidance_goes_into_current_and_best_although_it_makes_them_worse(
    tmp_path: Path,
) -> None:
    told = train_with_bad_guidance(tmp_path / "run", slow_update_gate_with_selection=False)
    assert "GUIDANCE" in (tmp_path / "run" / "best_skill.md").read_text("utf-8")
    assert (told["best_origin"], told["current_origin"]) == ("slow_update_epoch_02",) * 2
    assert (told["best_score"], told["test_hard"]) == (0.0, 0.0)
    assert told["forced_slow_updates"] == [
        {
            "epoch": 2,
            "current_before": 1.0,
            "current_after": 0.0,
            "best_before": 1.0,
            "best_after": 0.0,
        }
    ]
    result = json.loads((tmp_path / "run/slow_update/epoch_02/slow_result.json").read_text("utf-8"))
    assert (result["action"], result["update_target"]) == ("force_accept", "current_and_best")


def test_gated_guidance_that_makes_the_skill_worse_is_rejected(tmp_path: Path) -> None:
    told = train_with_bad_guidance(tmp_path / "run")
    assert "GUIDANCE" not in (tmp_path / "run" / "best_skill.md").read_text("utf-8")
    assert told["best_score"] == 1.0
    assert "forced_slow_updates" not in told


def test_forced_guidance_reaches_a_best_skill_that_is_not_the_current_one(tmp_path: Path) -> None:
    told = train_with_bad_guidance(
        tmp_path / "run", slow_update_gate_with_selection=False, use_gate=False
    )
    best = (tmp_path / "run" / "best_skill.md").read_text("utf-8")
    current = (tmp_path / "run" / "skills" / "skill_v0002.md").read_text("utf-8")
    assert ("SPOILT" in best, "GUIDANCE" in best) == (False, True)
    assert ("SPOILT" in current, "GUIDANCE" in current) == (True, True)
    (effect,) = told["forced_slow_updates"]
    assert (effect["best_before"], effect["best_after"]) == (1.0, 0.0)
    assert (told["best_selection_hard"], told["best_selection_n"]) == (0.0, 4)


@pytest.mark.parametrize(("gated", "word"), [("true", "gate"), ("false", "force")])
async def test_the_start_and_the_end_of_a_run_tell_how_guidance_is_accepted(
    gated: str, word: str, tmp_path: Path
) -> None:
    async with Simulator(seed=1) as sim:
        make_project(tmp_path, sim.url)
        args = ("train", "c.yaml", "train.num_epochs=2", f"slow_update_gate_with_selection={gated}")
        done = await run_command(*args, cwd=tmp_path)
    assert done.code == 0, done.err
    assert f"[slow update] acceptance={word} (" in done.err
    told = "forced slow update, epoch 2: best skill on val " in done.out
    assert told == (word == "force")
