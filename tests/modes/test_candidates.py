"""Several candidates per step, other parents, an early end: in whole runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from support_cli import make_project, skillopt
from support_runs import Job, Uncut, kill_and_resume, make_data, run_uncut

from skillopt.core.facts import Stepped
from skillopt.core.proposal import candidates_compared
from skillopt.store.events import read_log
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    return run_uncut(
        tmp_path_factory.mktemp("uncut"),
        epochs=3,
        train__batch_size=10,
        optimizer__candidates=5,
        optimizer__candidate_shuffles=1,
        optimizer__screen_tasks=6,
        optimizer__race_block=4,
        optimizer__parents="pareto",
        optimizer__use_slow_update=False,
        optimizer__use_meta_skill=False,
    )


def steps_of(out: Path) -> list[Stepped]:
    return [each for each in read_log(out / "events.jsonl") if isinstance(each, Stepped)]


def read(path: Path) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(path.read_text("utf-8")))


def test_a_run_with_several_candidates_ends_above_its_baseline(uncut: Uncut) -> None:
    told = read(uncut.job.out / "summary.json")
    assert cast("float", told["test_delta_hard"]) > 0
    assert cast("int", told["race_attempts"]) > 0


def test_every_step_tells_who_was_raced_and_what_it_cost(uncut: Uncut) -> None:
    raced = [step for step in steps_of(uncut.job.out) if step.rounds]
    assert raced
    for step in raced:
        folder = uncut.job.out / "steps" / f"step_{step.step:04d}"
        told, record = read(folder / "race.json"), read(folder / "step_record.json")
        candidates = [take.name for take in step.draft.candidates]
        assert len(candidates) == len(set(candidates)) <= 5
        assert record["n_candidates"] == len(candidates)
        assert record["race_attempts"] == sum(heat.attempts for heat in step.rounds)
        for take in step.draft.candidates[1:]:
            rival = folder / "rivals" / f"{take.name.replace(' ', '_')}.md"
            assert take.skill is not None
            assert rival.read_text("utf-8") == take.skill.render()
        if step.decision is None:
            assert step.action == "skip_screened", step.action
            assert told["winner"] is None
        else:
            assert told["winner"] == step.draft.leading.name
            assert step.decision.candidate.skill == step.draft.leading.skill
            assert (folder / "candidate_skill.md").read_text("utf-8") == (
                step.decision.candidate.skill.render()
            )
    kinds = {take.name.split()[0] for step in raced for take in step.draft.candidates}
    assert {"bundle", "without", "only", "shuffle"} <= kinds


def test_only_who_gains_on_the_own_tasks_of_the_step_is_raced_on_val(uncut: Uncut) -> None:
    raced = [step.rounds for step in steps_of(uncut.job.out) if step.rounds]
    assert any(heat.split == "val" for rounds in raced for heat in rounds)
    for rounds in raced:
        for before, after in itertools.pairwise(rounds):
            assert set(after.gains) == set(before.kept)
        screened = [heat for heat in rounds if heat.split == "train"]
        assert all(heat.gains[name] > 0 for heat in screened for name in heat.kept)


def test_some_step_set_out_from_a_skill_that_is_not_current_any_more(uncut: Uncut) -> None:
    steps = steps_of(uncut.job.out)
    accepted = {"initial_skill"} | {
        step.decision.candidate.origin
        for step in steps
        if step.decision is not None and step.decision.accepted
    }
    parents = {step.parent for step in steps if step.parent}
    assert parents <= accepted
    assert parents


async def test_an_attempt_of_a_rival_is_shown_under_its_name(uncut: Uncut) -> None:
    out = uncut.job.out
    with RunReader(out) as reader:
        met = {each.decision.candidate.skill for each in reader.steps if each.decision}
        step, take, rollout = next(
            (step, take, rollout)
            for step in reader.steps
            for take in step.draft.candidates[1:]
            if take.skill is not None and take.skill not in met
            for rollout in reader.rollouts(skill=take.skill.digest)
        )
        assert reader.skill(rollout.skill) == take.skill
    done = await skillopt("show", str(out), "--item", rollout.task, cwd=out.parent)
    assert f"under step {step.step}, {take.name} (not put to the gate)" in done.out
    assert "not in the event log" not in done.out


async def test_a_killed_run_ends_as_the_uncut_one(uncut: Uncut, tmp_path: Path) -> None:
    for moment in range(2):
        await kill_and_resume(moment, uncut, tmp_path / f"run{moment}")


async def test_the_winner_is_not_measured_again_where_it_was_raced(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    more: Mapping[str, object] = {
        "optimizer.candidates": 4,
        "optimizer.race_block": 30,
        "evaluation.eval_test": False,
        "optimizer.use_slow_update": False,
        "optimizer.use_meta_skill": False,
    }
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=40, more=more)
        await job.here()
        paid = sim.stats().replies["target"]
        most = max(sim.stats().completed.values())
    (step,) = steps_of(job.out)
    assert candidates_compared(step.rounds) > 1
    assert step.decision is not None
    assert most == 1
    assert paid == 30 + 40 + sum(heat.attempts for heat in step.rounds)


async def test_patience_ends_training_and_more_of_it_goes_on(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    more: Mapping[str, object] = {"optimizer.learning_rate": 0, "optimizer.min_learning_rate": 0}
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", batch=10, more=more)
        await job.here({"train.patience": 3})
        told = read(job.out / "summary.json")
        assert told["total_steps"] == 3
        assert "test_hard" in told
        await job.here({"train.patience": 0})
    assert read(job.out / "summary.json")["total_steps"] == 8


async def test_the_terminal_tells_of_races_and_of_an_early_end(tmp_path: Path) -> None:
    async with Simulator(seed=1) as sim:
        make_project(tmp_path, sim.url, (40, 20, 8))
        more = ("optimizer.candidates=4", "train.batch_size=10", "train.patience=2")
        done = await skillopt("train", "c.yaml", *more, "train.num_epochs=4", cwd=tmp_path)
        assert done.code == 0, done.err
        shown = await skillopt("show", "run", "--step", "1", cwd=tmp_path)
    assert "best of 4: " in done.err
    assert "stopped early: 2 steps in a row changed nothing (train.patience)" in done.err
    assert "candidates: 4, compared by" in shown.out
