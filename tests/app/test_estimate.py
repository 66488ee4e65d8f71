"""What a run really calls lies within what was estimated, role by role, in every mode."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support_runs import Job, make_data

from skillopt.api import estimate, estimate_async, train_async
from skillopt.app.costs import CALLS_FACTOR, TOKENS_FACTOR
from skillopt.config import recipe
from skillopt.core.chat import Usage
from skillopt.core.costs import Range
from skillopt.errors import ConfigError
from skillopt.store.cache import SqliteCache
from skillopt.testing.simulator import Simulator, initial_skill

MODES: dict[str, dict[str, object]] = {
    "default": {},
    "three epochs, small minibatches": {
        "train.num_epochs": 3,
        "gradient.minibatch_size": 2,
        "gradient.merge_batch_size": 2,
        "optimizer.slow_update_samples": 5,
    },
    "accumulation, failures only": {
        "train.batch_size": 5,
        "train.accumulation": 2,
        "gradient.failure_only": True,
        "optimizer.use_meta_skill": False,
    },
    "meta reflect, changed pairs": {
        "optimizer.use_meta_reflect": True,
        "optimizer.longitudinal_pair_policy": "changed",
        "optimizer.slow_update_samples": 4,
        "optimizer.learning_rate": 1,
        "optimizer.min_learning_rate": 1,
    },
    "small models": {
        "gradient.proposer": ["instruct", "patterns"],
        "gradient.merge_mode": "union",
        "optimizer.select_mode": "trial",
        "optimizer.use_slow_update": False,
        "optimizer.use_meta_skill": False,
    },
    "explore, no gate, no exam": {
        "gradient.proposer": "explore",
        "evaluation.use_gate": False,
        "evaluation.eval_test": False,
    },
    "rewrite from suggestions, learning rate asked for, bounded size": {
        "optimizer.skill_update_mode": "rewrite_from_suggestions",
        "optimizer.lr_control_mode": "autonomous",
        "optimizer.max_skill_tokens": 400,
    },
    "speculation": {"engine.speculate": True, "train.batch_size": 5},
    "deep reflection": {"gradient.use_deep_reflect": True},
    "reminders": {
        "optimizer.use_skill_aware_reflection": True,
        "optimizer.skill_aware_consolidate_threshold": 1,
    },
    "full rewrite": {"optimizer.skill_update_mode": "full_rewrite_minibatch"},
    "no learning rate": {"optimizer.lr_control_mode": "none", "optimizer.use_meta_reflect": True},
    "a test that buys replicates, noise first": {
        "evaluation.gate": "paired",
        "evaluation.alpha": 0.001,
        "evaluation.inconclusive": "replicate",
        "evaluation.calibrate": True,
    },
    "pruning": {"optimizer.prune_every": 1, "optimizer.prune_tasks": 6},
    "several candidates, dealt anew, early end": {
        "optimizer.candidates": 5,
        "optimizer.candidate_shuffles": 1,
        "optimizer.screen_tasks": 6,
        "optimizer.race_block": 4,
        "optimizer.parents": "pareto",
        "train.batch_size": 5,
        "train.patience": 1,
    },
    "several rewrites, bounded size": {
        "optimizer.candidates": 3,
        "optimizer.skill_update_mode": "rewrite_from_suggestions",
        "optimizer.max_skill_tokens": 400,
    },
    "portfolio": {"gradient.proposer": ["analyst", "explore"], "gradient.portfolio_after": 1},
}


def within(number: float, found: Range) -> bool:
    return found.low <= number <= found.high


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_really_called_lies_within_the_range(mode: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (20, 12, 8))
    async with Simulator(seed=1) as sim:
        job = Job(
            url=sim.url, data=data, out=tmp_path / "run", epochs=2, batch=10, more=MODES[mode]
        )
        before = await estimate_async(skill=initial_skill(), settings=job.settings())
        assert sim.stats().requests == 0
        await job.here()
    cache = SqliteCache(job.out / "cache.sqlite", read_only=True)
    spent = cache.spent()
    cache.close()
    calls = Counter[str]()
    for (_, role, _), usage in spent.items():
        calls[role] += usage.calls
    ranges = {line.role: line.calls for line in before.roles}
    assert calls.keys() <= ranges.keys()
    for role, found in ranges.items():
        assert within(calls[role], found), (role, calls[role], found)
    assert within(sum(calls.values()), before.calls.likely(2)), (calls, before.calls)


RECIPE: dict[str, dict[str, object]] = {
    "as it is": {},
    "small batches": {"train.batch_size": 10},
    "patience": {"train.patience": 2},
}


@pytest.mark.parametrize("changed", RECIPE)
async def test_the_recipe_takes_about_what_was_expected(changed: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (60, 30, 30))
    settings = {
        "model.backend": "openai_compatible",
        "model.target": "simulated-target",
        "model.optimizer": "simulated-optimizer",
        "env.name": "custom",
        "env.split_mode": "split_dir",
        "env.split_dir": str(data),
        **RECIPE[changed],
    }
    async with Simulator(seed=1) as sim:
        settings["model.base_url"] = sim.url
        before = await estimate_async(skill=initial_skill(), settings=settings)
        await train_async(
            skill=initial_skill(), settings=settings, out=tmp_path / "run", progress=False
        )
    cache = SqliteCache(tmp_path / "run" / "cache.sqlite", read_only=True)
    spent = sum(cache.spent().values(), Usage())
    cache.close()
    assert within(spent.calls, before.calls.likely(CALLS_FACTOR)), (spent, before.calls)
    tokens = spent.input + spent.output
    assert within(tokens, before.tokens.likely(TOKENS_FACTOR)), (spent, before.tokens)


def test_the_likely_range_is_narrow_and_inside_the_bounds(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (20, 12, 8))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run")
    prices = {"model.input_price": 1.0, "model.output_price": 4.0}
    found = estimate(skill=initial_skill(), settings={**job.settings(), **prices})
    assert found.dollars is not None
    for each in (found.calls, found.tokens, found.dollars, found.seconds):
        likely = each.likely(2)
        assert each.low <= likely.low < each.expected < likely.high <= each.high
        assert likely.high <= 4 * likely.low
    assert found.dollars.high > 8 * found.dollars.low


def test_more_workers_take_less_time_and_the_same_calls(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (60, 40, 40))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run", batch=30)
    few, many = (
        estimate(skill=initial_skill(), settings={**job.settings(), "env.workers": workers})
        for workers in (1, 20)
    )
    assert few.calls.expected == many.calls.expected
    assert few.seconds.expected > 3 * many.seconds.expected
    assert few.seconds.low > many.seconds.low > 0


@pytest.mark.parametrize("search", [{}, recipe.RECIPE], ids=["protocol", "recipe"])
def test_attempts_by_idle_workers_cost_calls_and_no_time(
    search: dict[str, object], tmp_path: Path
) -> None:
    data = make_data(tmp_path / "data")
    more: dict[str, object] = {**search, "train.batch_size": 10}
    plain, ahead = (
        estimate(skill=data / "start.md", settings=job.settings())
        for job in (
            Job(url="http://unused", data=data, out=tmp_path / "out", more=given)
            for given in (more, {**more, "engine.speculate": True})
        )
    )
    assert ahead.calls.high > plain.calls.high
    assert ahead.calls.expected > plain.calls.expected
    assert ahead.seconds == plain.seconds


def test_what_is_expected_adds_up_and_stays_within_the_bounds() -> None:
    both = Range(0, 10, 2) + Range(4, 8)
    assert (both, both.expected) == (Range(4, 18), 8)
    assert (Range(2, 4) * Range(10, 30, 10)).expected == 30
    assert Range(0, 10, 99).expected == 10
    assert Range(2, 8).perhaps().expected == 2.5


def test_dollars_are_told_only_when_all_prices_are_known(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (20, 12, 8))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run")
    settings = job.settings()
    assert estimate(skill=initial_skill(), settings=settings).dollars is None
    settings |= {"model.target_input_price": 1.0, "model.target_output_price": 2.0}
    half = estimate(skill=initial_skill(), settings=settings)
    assert (half.dollars, half.unpriced) == (None, ["optimizer"])
    settings |= {"model.optimizer_input_price": 0.0, "model.optimizer_output_price": 0.0}
    dollars = estimate(skill=initial_skill(), settings=settings).dollars
    assert dollars is not None
    assert 0 < dollars.low < dollars.high
    assert not job.out.exists()


def test_an_estimate_takes_the_arguments_of_a_training() -> None:
    rows = [{"input": str(n), "answer": str(n)} for n in range(20)]
    found = estimate(data=rows, target=str, optimizer=str, skill="Count.")
    assert {line.phase for line in found.lines} >= {"initial skill on val", "rollout", "analysts"}
    assert "preflight" not in {line.phase for line in found.lines}
    with pytest.raises(ConfigError):
        estimate(data=rows, train=rows, target=str, optimizer=str)


def test_only_texts_that_may_be_too_long_are_reckoned_to_be_shortened(tmp_path: Path) -> None:
    """Every candidate of a step, a meta reflection and a guidance once each, a pruning never."""
    data = make_data(tmp_path / "data", (20, 12, 8))
    job = Job(
        url="http://127.0.0.1:9",
        data=data,
        out=tmp_path / "run",
        epochs=2,
        batch=10,
        more={
            "optimizer.candidates": 3,
            "optimizer.max_skill_tokens": 400,
            "optimizer.use_meta_reflect": True,
            "optimizer.prune_every": 1,
        },
    )
    found = estimate(skill=initial_skill(), settings=job.settings())
    (compress,) = (line for line in found.lines if line.phase == "compress")
    steps, reflections, guidances = 4, 2, 1
    assert compress.calls == Range(0, 3 * steps + reflections + guidances)


LOCAL: dict[str, object] = {
    "model.backend": "local",
    "model.target": "qwen2.5-coder-1.5b",
    "model.optimizer": "qwen2.5-coder-1.5b",
    "model.local_threads": 2,
}


def local_job(folder: Path) -> dict[str, object]:
    data = make_data(folder / "data", (60, 40, 40))
    settings = Job(url="", data=data, out=folder / "run", batch=30).settings()
    others = {key: each for key, each in settings.items() if not key.startswith("model.")}
    return {**others, **LOCAL}


def test_a_local_model_computes_as_many_calls_at_a_time_as_it_is_set_to(tmp_path: Path) -> None:
    def seconds(workers: int, parallel: int) -> float:
        more = {"env.workers": workers, "gradient.analyst_workers": workers}
        more["model.local_parallel"] = parallel
        return estimate(
            skill=initial_skill(), settings={**local_job(tmp_path), **more}
        ).seconds.expected

    alone = seconds(1, 1)
    assert seconds(20, 1) == alone == seconds(1, 4)
    assert seconds(20, 4) < alone / 2


def test_a_local_model_reads_and_writes_at_the_speed_of_its_cores_and_its_size(
    tmp_path: Path,
) -> None:
    settings = local_job(tmp_path)
    small = {"model.target": "qwen2.5-coder-0.5b", "model.optimizer": "qwen2.5-coder-0.5b"}
    two, four, half = (
        estimate(skill=initial_skill(), settings={**settings, **more})
        for more in ({}, {"model.local_threads": 4}, small)
    )
    assert two.calls.expected == four.calls.expected == half.calls.expected
    assert four.seconds.expected == pytest.approx(two.seconds.expected / 2)
    assert half.seconds.expected < two.seconds.expected / 2
    attempts = next(line for line in two.lines if line.phase == "initial skill on val")
    assert 1 < attempts.seconds.expected / attempts.calls.expected < 6


def test_a_server_that_takes_few_calls_at_a_time_takes_longer(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (60, 40, 40))
    settings = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run", batch=30).settings()
    settings["env.workers"] = 20
    many, two = (
        estimate(skill=initial_skill(), settings={**settings, **more}).seconds.expected
        for more in ({}, {"model.max_concurrency": 2})
    )
    assert two > 2 * many
