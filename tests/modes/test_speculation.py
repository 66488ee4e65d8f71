"""Speculation in whole runs: the same results, and every call in vain is told."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from support import analysis
from support_cli import make_project, skillopt
from support_judge import grades, judged
from support_runs import Job, facts, make_data, timeless, until_quiet
from support_wire import WireServer

from skillopt import open_run
from skillopt.api import Result, train_async
from skillopt.app.speculating import hindrance, speculates
from skillopt.config.load import load_config
from skillopt.config.recipe import RECIPE
from skillopt.core.chat import Request
from skillopt.core.events import Prefetched
from skillopt.core.facts import Stepped
from skillopt.testing.simulator import Simulator

PATIENCE = 60


async def run(data: Path, out: Path, more: dict[str, object]) -> tuple[Job, int]:
    """A run, and how many calls it took."""
    async with Simulator(seed=1, latency=(0.0, 0.01)) as sim:
        job = Job(url=sim.url, data=data, out=out, batch=10, more=more)
        await job.here()
        return job, await until_quiet(sim)


async def test_results_are_the_same_and_waste_is_exactly_what_was_called_in_addition(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data")
    plain, needed = await run(data, tmp_path / "plain", {})
    ahead, made = await run(data, tmp_path / "ahead", {"engine.speculate": True})
    assert facts(ahead.out) == facts(plain.out)
    for name in ("best_skill.md", "runtime_state.json"):
        found = (ahead.out / name).read_text("utf-8").replace(str(ahead.out), str(plain.out))
        assert found == (plain.out / name).read_text("utf-8")
    told, without = (
        json.loads((job.out / "summary.json").read_text("utf-8")) for job in (ahead, plain)
    )
    assert "speculation" not in without
    found = told["speculation"]
    assert found["attempts"] >= found["unused"]["attempts"] > 0
    assert found["unused"]["calls"] == made - needed
    assert told["receipt"]["_total"]["calls"] == made
    for key in ("claim", "tried", "epoch_stats", "selection", "test"):
        assert timeless(told[key]) == timeless(without[key])


@pytest.mark.parametrize("workers", [8, 128])
async def test_the_recipe_decides_the_same_and_begins_the_step_after_a_candidate_that_is_accepted(
    workers: int, tmp_path: Path
) -> None:
    data = make_data(tmp_path / "data")
    more: dict[str, object] = {**RECIPE, "train.batch_size": 25, "env.workers": workers}
    plain, needed = await run(data, tmp_path / "plain", more)
    ahead, made = await run(data, tmp_path / "ahead", {**more, "engine.speculate": True})
    assert facts(ahead.out) == facts(plain.out)
    found = json.loads((ahead.out / "summary.json").read_text("utf-8"))["speculation"]
    assert found["unused"]["calls"] == made - needed
    assert found["attempts"] - found["unused"]["attempts"] > 0
    events = [entry.event for entry in open_run(ahead.out).events()]
    accepted = {
        event.step for event in events if isinstance(event, Stepped) and event.decision is not None
    }
    begun = {event.move for event in events if isinstance(event, Prefetched)}
    assert begun
    assert begun <= {f"step_{step + 1:04d}" for step in accepted}


async def test_calls_of_a_judge_for_attempts_in_vain_are_counted_with_them(tmp_path: Path) -> None:
    data, made = make_data(tmp_path / "data"), dict[bool, int]()
    for speculate in False, True:
        async with WireServer([grades]) as server:
            more = {**judged(server.url), "engine.speculate": speculate}
            job, calls = await run(data, tmp_path / f"{speculate}", more)
            made[speculate] = calls + len(server.seen)
    told = json.loads((job.out / "summary.json").read_text("utf-8"))
    unused = told["speculation"]["unused"]
    # Equal questions to the judge are asked once, so some of its calls were of use after all.
    assert unused["attempts"] < made[True] - made[False] <= unused["calls"]
    assert unused["calls"] <= 2 * unused["attempts"]
    assert told["receipt"]["_total"]["calls"] == made[True]


ROWS = [{"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(20)]


async def test_a_finished_run_ends_what_is_under_way_in_vain_and_says_what_it_may_have_cost(
    tmp_path: Path,
) -> None:
    asked = dict[str, list[str]]()

    async def train(name: str, *, hang: frozenset[str] = frozenset()) -> Result:
        """With a target that never answers some prompts."""
        prompts = asked[name] = []

        async def target(request: Request) -> str:
            prompt = "\n".join(message.text for message in request.messages)
            prompts.append(prompt)
            if hang and prompt not in hang:
                await asyncio.Event().wait()
            return str(2 * int(prompt.rsplit(" ", 1)[1])) if "Double" in prompt else "?"

        async def optimizer(request: Request) -> str:
            prompts.append("optimizer")
            return analysis("Double the number.") if request.stage == "analyst" else "{}"

        settings: dict[str, object] = {
            "optimizer.select_mode": "ranking",
            "train.num_epochs": 1,
            "train.batch_size": 4,
            "engine.speculate": bool(hang),
        }
        return await train_async(
            train=ROWS[:8],
            val=ROWS[8:],
            skill="You add numbers.",
            target=target,
            optimizer=optimizer,
            out=tmp_path / name,
            settings=settings,
            progress=False,
        )

    plain = await train("plain")
    needed = frozenset(asked["plain"])
    ahead = await asyncio.wait_for(train("ahead", hang=needed), PATIENCE)
    assert ahead.best_skill == plain.best_skill
    assert facts(tmp_path / "ahead") == facts(tmp_path / "plain")
    lost = len(asked["ahead"]) - len(asked["plain"])
    assert lost > 0
    told = json.loads((tmp_path / "ahead" / "summary.json").read_text("utf-8"))
    assert told["receipt"]["_total"]["calls"] == len(asked["plain"])
    assert told["interrupted_calls"]["calls"] == lost


async def test_a_rejected_candidate_leaves_no_trace_of_speculation_in_the_ledger(
    tmp_path: Path,
) -> None:
    """With a gate that only next to all tasks could pass, every guess is right."""
    data = make_data(tmp_path / "data")
    more: dict[str, object] = {
        "train.num_epochs": 1,
        "evaluation.gate": "paired",
        "evaluation.alpha": 4e-7,
    }
    plain, needed = await run(data, tmp_path / "plain", more)
    ahead, made = await run(data, tmp_path / "ahead", {**more, "engine.speculate": True})
    assert made == needed
    told = [
        timeless(json.loads((job.out / "history.json").read_text("utf-8")))
        for job in (plain, ahead)
    ]
    assert told[0] == told[1]
    found = json.loads((ahead.out / "summary.json").read_text("utf-8"))
    assert found["speculation"]["attempts"] > 0
    assert found["speculation"]["unused"]["attempts"] == 0
    assert found["reused"]["attempts"] == 0


async def test_the_terminal_tells_what_was_begun_and_what_was_in_vain(tmp_path: Path) -> None:
    async with Simulator(latency=(0.0, 0.02)) as sim:
        make_project(tmp_path, sim.url, (24, 8, 8))
        done = await skillopt(
            "train", "c.yaml", "engine.speculate=true", "evaluation.block=6", cwd=tmp_path
        )
        assert done.code == 0, done.err
        assert re.search(r"^  speculate +\d attempts? of step 2$", done.err, re.MULTILINE)
        receipt = r"^speculative attempts: \d+, (\d+ unused \(\d+ calls|all used)"
        assert re.search(receipt, done.out, re.MULTILINE)
        shown = await skillopt("show", "run", cwd=tmp_path)
        assert re.search(receipt, shown.out, re.MULTILINE)


async def test_a_run_may_be_continued_with_and_without(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (16, 8, 4))
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=4)
        await job.here({"engine.speculate": True})
        await job.here({"engine.speculate": False, "train.num_epochs": 2})
        await job.here({"engine.speculate": True, "train.num_epochs": 3})
        assert sim.stats().repeated == {}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"limits.minutes": 5.0}, ""),
        ({"limits.calls": 100}, "would use up the budget of the run"),
        ({"limits.tokens": 100}, "would use up the budget of the run"),
        ({"evaluation.use_gate": False}, ""),
        ({"model.target_backend": "handoff"}, "people would answer prompts that may not be used"),
        ({"env.workers": 1}, "no idle worker"),
        ({"model.target_requests_per_minute": 60}, "has no capacity"),
        ({"model.tokens_per_minute": 60_000}, "has no capacity"),
        ({"model.max_concurrency": 35}, "has no capacity"),
        ({"model.max_concurrency": 36}, ""),
        ({"model.optimizer_max_concurrency": 1}, ""),
        ({"model.target_backend": "local"}, "has no capacity"),
        ({"model.target_backend": "local", "model.local_parallel": 4}, ""),
    ],
)
def test_nothing_is_attempted_ahead_where_that_would_do_harm_or_no_good(
    more: dict[str, object], why: str
) -> None:
    config = load_config(None, values={"engine.speculate": True, **more})
    assert speculates(config) is not bool(why)
    assert why in hindrance(config)


async def test_a_limit_switches_speculation_off_and_says_so(tmp_path: Path) -> None:
    async with Simulator() as sim:
        make_project(tmp_path, sim.url)
        more = ("engine.speculate=true", "limits.calls=500")
        done = await skillopt("train", "c.yaml", *more, cwd=tmp_path)
        assert done.code == 0, done.err
        assert (
            "engine.speculate has no effect: unused speculative attempts would use up" in done.err
        )
        assert "speculative attempts" not in done.out
