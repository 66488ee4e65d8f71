"""Limits in whole runs: never exceeded, and no obstacle to going on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support_cli import make_project, skillopt
from support_runs import Job, Uncut, facts, kept_calls, make_data, run_uncut
from support_runs import told as says
from support_wire import WireServer, completion
from support_wire import says as answers

from skillopt.errors import BudgetSpent, ConfigError
from skillopt.store.cache import SqliteCache
from skillopt.testing.simulator import Simulator

PRICES = {"model.input_price": 1.0, "model.output_price": 4.0, "model.max_tokens": 400}


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    more = {key.replace(".", "__"): value for key, value in PRICES.items()}
    return run_uncut(tmp_path_factory.mktemp("uncut"), epochs=1, **more)


def paid(out: Path) -> float:
    cache = SqliteCache(out / "cache.sqlite", read_only=True)
    dollars = sum(usage.dollars for usage in cache.spent().values())
    cache.close()
    return dollars


async def test_a_limit_raised_again_and_again_is_never_exceeded_and_changes_nothing(
    uncut: Uncut, tmp_path: Path
) -> None:
    whole = paid(uncut.job.out)
    async with Simulator(seed=1, latency=(0.0, 0.002)) as sim:
        job = replace(uncut.job, url=sim.url, out=tmp_path / "run")
        for share in (0.05, 0.3, 0.6, 0.9):
            cap = whole * share
            with pytest.raises(BudgetSpent, match=r"limits.dollars is reached"):
                await job.here({"limits.dollars": cap})
            assert 0 < paid(job.out) <= cap
            if (job.out / "summary.json").exists():
                told = json.loads((job.out / "summary.json").read_text("utf-8"))
                spent = told["receipt"]["_total"]["dollars"]
                assert spent == pytest.approx(paid(job.out), abs=1e-5)
                assert told["stopped"]["reason"].startswith("BudgetSpent: limits.dollars is")
                low, high = told["stopped"]["rest"]["dollars"]
                assert low <= whole - spent <= high
                low, high = told["stopped"]["rest"]["calls"]
                assert low <= uncut.calls - kept_calls(job.out) <= high
        assert (job.out / "best_skill.md").exists()
        await job.here({"limits.dollars": whole * 2})
        assert sim.stats().repeated == {}
    assert facts(job.out) == uncut.facts
    assert says(job.out) == uncut.says


async def test_calls_and_tokens_are_limited_alike(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=8)
        with pytest.raises(BudgetSpent, match=r"limits.calls is reached: 11 allowed, 11 were made"):
            await job.here({"limits.calls": 11})
        assert sum(sim.stats().completed.values()) == 11
        with pytest.raises(BudgetSpent, match=r"limits.tokens is reached: 20,000 allowed"):
            await job.here({"limits.tokens": 20_000})


async def test_a_limit_in_dollars_without_prices_is_an_error_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run")
    for more, missing in (
        ({}, "model.target_input_price and _output_price, model.optimizer_input_price"),
        (
            {"model.target_input_price": 1.0, "model.target_output_price": 0.0},
            "set model.optimizer",
        ),
    ):
        with pytest.raises(ConfigError, match=rf"limits.dollars: cannot be kept.*{missing}"):
            await job.here({"limits.dollars": 1.0, **more})
    assert not job.out.exists()


@pytest.mark.parametrize("limit", ["tokens", "dollars"])
async def test_the_command_that_is_named_lets_the_run_end(limit: str, tmp_path: Path) -> None:
    prices = [f"{key}={value}" for key, value in PRICES.items()]
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        cap = {"tokens": "limits.tokens=9000", "dollars": "limits.dollars=0.01"}[limit]
        done = await skillopt("train", "c.yaml", cap, *prices, cwd=tmp_path)
        assert done.code == 4, done.err
        command = done.err.splitlines()[-1].removeprefix("To resume with a higher limit: ")
        assert command.startswith("skillopt train c.yaml model.input_price=1.0 ")
        assert command.count("limits.") == 1
        done = await skillopt(*command.split()[1:], cwd=tmp_path)
        assert done.code == 0, done.err


async def test_a_run_cut_before_it_has_begun_says_what_all_of_it_takes(tmp_path: Path) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt("train", "c.yaml", "limits.calls=3", cwd=tmp_path)
    assert done.code == 4, done.err
    assert "Estimate for the rest of the run: " in done.err
    assert not (tmp_path / "run" / "summary.json").exists()


BROKEN = """\
from contextlib import asynccontextmanager

from skillopt.envs.custom.env import Custom


class Broken(Custom):
    name = "broken"

    @asynccontextmanager
    async def open(self, task):
        if task == self.tasks("train")[0]:
            raise OSError("the file of this task is gone")
        async with super().open(task) as episode:
            yield episode
"""


async def test_a_task_that_cannot_be_opened_does_not_hide_that_a_limit_is_reached(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN, encoding="utf-8")
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        words = ("env.name=broken:Broken", "limits.calls=11")
        done = await skillopt("train", "c.yaml", *words, cwd=tmp_path)
    assert done.code == 4, done.err
    assert done.err.splitlines()[-1].startswith("limits.calls is reached: 11 allowed")
    assert "the rest of the run" not in done.err
    told = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert told["stopped"]["reason"].startswith("BudgetSpent: limits.calls is reached")
    assert "rest" not in told["stopped"]


async def test_the_command_ends_with_code_4_a_usable_skill_and_what_it_needs(
    tmp_path: Path,
) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        done = await skillopt("train", "c.yaml", "limits.calls=20", cwd=tmp_path)
        assert done.code == 4, done.err
        assert "result so far" in done.out
        assert "Traceback" not in done.err
        assert "error:" not in done.err
        why, needs, command = done.err.splitlines()[-3:]
        assert why.startswith("limits.calls is reached: 20 allowed, 20 were made.")
        assert why.endswith("raise limits.calls and run the same command again.")
        assert re.fullmatch(
            r"Estimate for the rest of the run: [\d,]+-[\d,]+ calls, \S+ tokens, dollars unknown\.",
            needs,
        )
        found = re.fullmatch(
            r"To resume with a higher limit: skillopt (train c\.yaml limits\.calls=\d+)", command
        )
        assert found is not None
        assert (tmp_path / "run" / "best_skill.md").exists()
        told = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
        assert told["receipt"]["_total"]["calls"] == 20
        assert told["stopped"]["rest"]["calls"][1] > 0
        done = await skillopt(*found[1].split(), cwd=tmp_path)
        assert done.code == 0, done.err
        told = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
        assert "stopped" not in told
        assert "cache hits (not paid again): " in done.err
        assert "target rollout 8; saved " in done.err
        assert sim.stats().repeated == {}


WORDY = completion("no idea", usage={"prompt_tokens": 50, "completion_tokens": 5000})
"""Of a model that was asked for 400 tokens at most."""


async def test_replies_longer_than_max_tokens_that_exceed_a_limit_end_the_run_at_once(
    tmp_path: Path,
) -> None:
    async with WireServer(
        [answers(completion("OK")), answers(completion("OK")), answers(WORDY)]
    ) as (server):
        make_project(tmp_path, server.url, (16, 40, 8))
        words = ("limits.tokens=20000", "model.max_tokens=400", "env.workers=4")
        done = await skillopt("train", "c.yaml", *words, cwd=tmp_path)
        calls = len(server.seen)
        assert done.code == 4, done.err
        # Four calls cross the limit; at most three more were under way at that moment.
        assert 4 <= calls - 2 <= 7
        used = (calls - 2) * 5050 + 2 * 15
        assert (
            f"limits.tokens is exceeded by {used - 20_000:,}: 20,000 allowed, {used:,} were used "
            "(replies took up to "
        ) in done.err
        assert kept_calls(tmp_path / "run") == calls, "calls under way are finished and kept"
        done = await skillopt("train", "c.yaml", *words, cwd=tmp_path)
        assert done.code == 4, done.err
        assert len(server.seen) == calls, "no further call starts"


EVAL = ("eval", "c.yaml", "--skill", "skill.md", "--out_root", "ev", "model.max_tokens=400")


async def test_replies_longer_than_max_tokens_within_a_limit_are_only_counted(
    tmp_path: Path,
) -> None:
    async with WireServer([answers(WORDY)]) as server:
        make_project(tmp_path, server.url, (8, 4, 4))
        done = await skillopt(*EVAL, "limits.tokens=9000000", cwd=tmp_path)
        calls = len(server.seen)
    assert done.code == 0, done.err
    assert "exceeded" not in done.err
    cache = SqliteCache(tmp_path / "ev" / "cache.sqlite", read_only=True)
    assert sum(usage.output for usage in cache.spent().values()) == 5000 * calls
    cache.close()


async def test_work_whose_last_call_exceeds_a_limit_is_complete_and_says_so(
    tmp_path: Path,
) -> None:
    async with WireServer([answers(WORDY)]) as server:
        make_project(tmp_path, server.url, (8, 4, 4))
        limit = 5050 * 17 - 1  # the first question, and one for each task
        done = await skillopt(*EVAL, f"limits.tokens={limit}", "env.workers=1", cwd=tmp_path)
        assert len(server.seen) == 17
    assert done.code == 0, done.err
    assert f"limits.tokens is exceeded by 1: {limit:,} allowed, {limit + 1:,} were" in done.err


async def test_a_start_with_a_wrong_key_under_a_limit_leaves_nothing(tmp_path: Path) -> None:
    async with Simulator(key="right") as sim:
        make_project(tmp_path, sim.url)
        words = ("limits.calls=50", "model.api_key_env=MY_KEY")
        done = await skillopt(*EVAL, *words, cwd=tmp_path, MY_KEY="wrong")
    assert done.code == 1, done.err
    assert not (tmp_path / "ev").exists()


@pytest.mark.parametrize("allowed", [56, 60, 70])
async def test_a_limit_that_ends_the_trial_of_a_step_does_not_end_what_it_has_learnt(
    allowed: int, tmp_path: Path
) -> None:
    data = make_data(tmp_path / "data", (24, 12, 4))
    more = {"optimizer.select_mode": "trial", "gradient.proposer": "patterns"}
    async with Simulator() as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=24, more=more)
        with pytest.raises(BudgetSpent, match=r"limits.calls is reached"):
            await job.here({"limits.calls": allowed})
    step = facts(job.out)[1]
    assert isinstance(step, dict)
    assert step["type"] == "stepped"
    assert step["action"] == "accept_new_best"
