"""Promises: an unsteady server changes no decision, and what cannot work says so and heals."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support_runs import Job, facts, make_data, told, until_quiet

from skillopt.errors import AccessError, SkilloptError, StoreError
from skillopt.testing.simulator import Faults, Simulator


async def test_an_unsteady_server_changes_no_decision(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    unsteady = Faults(
        rate_429=0.05, rate_500=0.02, rate_drop=0.01, rate_truncate=0.01, retry_after=0.05, seed=2
    )
    async with Simulator(seed=1) as calm, Simulator(seed=1, faults=unsteady) as rough:
        first = Job(url=calm.url, data=data, out=tmp_path / "calm")
        second = Job(url=rough.url, data=data, out=tmp_path / "rough")
        await asyncio.gather(first.here(), second.here())
        assert {"429", "500", "drop", "truncate"} <= set(rough.stats().refused)
        assert await until_quiet(rough) == await until_quiet(calm)
    assert told(second.out) == told(first.out)
    assert facts(second.out) == facts(first.out)


async def test_the_record_is_the_same_whatever_the_concurrency(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    async with Simulator(seed=1, latency=(0.0, 0.005)) as sim:
        jobs = [
            Job(url=sim.url, data=data, out=tmp_path / str(w), workers=w, analysts=w)
            for w in (1, 7, 64)
        ]
        for job in jobs:
            await job.here()
    assert facts(jobs[0].out) == facts(jobs[1].out) == facts(jobs[2].out)


@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_a_simulated_run_with_the_default_settings_learns_the_house(
    seed: int, tmp_path: Path
) -> None:
    data = make_data(tmp_path / "data", (80, 40, 60), seed)
    async with Simulator(seed=seed) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=4, batch=40, workers=24)
        result = await job.here()
    assert result.state.initial.value < 0.3
    assert result.score > 0.85
    assert result.test_score is not None
    assert result.test_score > 0.85


async def test_a_refused_key_leaves_nothing_behind_and_the_right_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(tmp_path / "data")
    out = tmp_path / "run"
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "wrong-key-12345")
    async with Simulator(seed=1, key="right-key-12345") as sim:
        job = Job(url=sim.url, data=data, out=out)
        with pytest.raises(AccessError, match="OPENAI_COMPATIBLE_API_KEY") as caught:
            await job.here()
        assert "wrong-key" not in str(caught.value)
        assert not out.exists()
        monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "right-key-12345")
        result = await job.here()
    assert result.score > 0.3
    for path in out.rglob("*"):
        assert not path.is_file() or b"right-key-12345" not in path.read_bytes(), path


async def test_a_dead_server_is_noticed_before_its_retries_are_used_up_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data")
    job = Job(url="http://127.0.0.1:9/v1", data=data, out=tmp_path / "run")
    with pytest.raises(AccessError, match="has not answered"):
        await job.here()
    assert not job.out.exists()


FILES = (
    "best_skill.md",
    "config.json",
    "history.json",
    "runtime_state.json",
    "summary.json",
    "skills/skill_v0001.md",
    "steps/step_0001/step_record.json",
    "steps/step_0001/candidate_skill.md",
    "steps/step_0001/merged_patch.json",
    "steps/step_0001/selection_eval/results.jsonl",
    "selection_eval_baseline/results.jsonl",
    "test_eval/results.jsonl",
    "slow_update/epoch_02/slow_result.json",
    "events.jsonl",
    "cache.sqlite",
)


async def test_every_file_cut_in_half_is_rebuilt_or_refused(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    async with Simulator(seed=1) as sim:
        whole = Job(url=sim.url, data=data, out=tmp_path / "whole")
        await whole.here()
        expected = told(whole.out)
        calls = await until_quiet(sim)
        every = [path for path in whole.out.rglob("*") if path.is_file()]
        assert set(FILES) <= {path.relative_to(whole.out).as_posix() for path in every}
        for name in FILES:
            job = Job(url=sim.url, data=data, out=tmp_path / "cut" / name.replace("/", "_"))
            shutil.copytree(whole.out, job.out)
            path = job.out / name
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2])
            if name == "cache.sqlite":
                with pytest.raises(StoreError, match=r"cache\.sqlite is damaged"):
                    await job.here()
            else:
                await job.here()
                assert told(job.out) == expected, name
        assert await until_quiet(sim) == calls


async def test_an_edited_fact_is_refused_by_line(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1)
        await job.here()
        log = job.out / "events.jsonl"
        text = log.read_text(encoding="utf-8")
        log.write_text(text.replace('"hard":0.0', '"hard":1.0', 1), encoding="utf-8")
        with pytest.raises(SkilloptError, match=r"events\.jsonl.*line"):
            await job.here()


async def test_more_epochs_go_on_where_the_run_ended(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    async with Simulator(seed=1) as sim:
        short = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1)
        first = await short.here()
        calls = await until_quiet(sim)
        longer = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=3)
        second = await longer.here()
        assert not sim.stats().repeated
        assert await until_quiet(sim) > calls
    assert second.score >= first.score
    assert second.spent.calls > first.spent.calls
    final_test = second.state.final_test
    assert final_test is not None
    assert final_test.best.skill == second.state.best.skill.digest


async def test_a_run_with_other_settings_is_refused_and_leaves_the_directory_as_it_was(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data")
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1)
        await job.here()
        before = {path: path.read_bytes() for path in job.out.rglob("*") if path.is_file()}
        with pytest.raises(StoreError, match=r"train\.seed: 42 there, 43 now"):
            await replace(job, seed=43).here()
        assert {path: path.read_bytes() for path in job.out.rglob("*") if path.is_file()} == before
