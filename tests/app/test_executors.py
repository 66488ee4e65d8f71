"""Attempts that are made by another process are the same attempts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_judge import grades, judged
from support_runs import Job, facts, make_data
from support_wire import WireServer
from support_worker import WorkerProcess

from skillopt.api import prepare, run_training, train_async
from skillopt.app.executors import RemoteExecutor, open_worker, specs
from skillopt.app.run_spec import RunSpec
from skillopt.core.events import Event, Signal
from skillopt.core.rollout import RolloutSpec
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.errors import BudgetSpent, ConfigError, HarnessError, Unmeasurable
from skillopt.model.budget import Budget, Limits, Meter
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import Layout
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.text(), st.dictionaries(st.text(), JSON), st.text(), st.integers(0, 9))
def test_a_spec_written_as_json_is_read_back_the_same(
    name: str, data: dict[str, object], document: str, replicate: int
) -> None:
    skill = Skill.parse(document)
    spec = RolloutSpec(
        task=Task(name, "kind", data, "rows.csv:3"),
        skill=skill,
        digest=skill.digest,
        replicate=replicate,
        environment="environment",
        harness="harness",
    )
    line = specs().encode(spec)
    assert b"\n" not in line
    assert specs().decode(line) == spec


def prepared(job: Job) -> tuple[RunSpec, WorkerProcess]:
    """A run whose attempts are made in a process of their own."""
    brief = prepare(settings=job.settings(), skill=job.data / job.start)
    worker = WorkerProcess(brief.config)
    return replace(brief, supplied=replace(brief.supplied, executor=worker)), worker


def unseen(_: Event | Signal) -> None:
    """Nobody watches."""


async def test_a_run_whose_attempts_are_made_by_another_process_has_the_same_record(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as simulator:
        here = Job(url=simulator.url, data=data, out=tmp_path / "here", epochs=1, batch=8)
        there = replace(here, out=tmp_path / "there")
        in_process = await here.here()
        _, worker = prepared(there)
        elsewhere = await train_async(
            skill=data / there.start, settings=there.settings(), executor=worker
        )
        assert worker.pipes is not None
        assert worker.pipes.sent > 0
        again, idle = prepared(there)
        await run_training(again, watch=unseen)
        assert idle.pipes is not None
        assert idle.pipes.sent == 0
    assert facts(there.out) == facts(here.out)
    assert elsewhere.state.best == in_process.state.best
    assert elsewhere.spent == in_process.spent
    with RunReader(here.out) as one, RunReader(there.out) as other:
        assert other.spent() == one.spent()
        assert sorted(other.rollouts(), key=str) == sorted(one.rollouts(), key=str)


async def test_a_worker_also_asks_the_judge_and_tells_what_that_took(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as simulator, WireServer([grades]) as server:
        here = Job(
            url=simulator.url,
            data=data,
            out=tmp_path / "here",
            epochs=1,
            batch=8,
            more=judged(server.url),
        )
        there = replace(here, out=tmp_path / "there")
        in_process = await here.here()
        brief, _ = prepared(there)
        elsewhere = await run_training(brief, watch=unseen)
    assert facts(there.out) == facts(here.out)
    with RunReader(here.out) as one, RunReader(there.out) as other:
        assert {role for _, role, _ in one.spent()} == {"target", "optimizer", "judge"}
        assert other.spent() == one.spent()
    assert elsewhere.spent == in_process.spent


async def test_a_limit_of_the_run_also_holds_for_a_worker(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as simulator:
        job = Job(
            url=simulator.url,
            data=data,
            out=tmp_path / "run",
            workers=1,
            more={"limits.calls": 5},
        )
        brief, _ = prepared(job)
        with pytest.raises(BudgetSpent, match=r"limits\.calls is reached"):
            await run_training(brief, watch=unseen)
        again, worker = prepared(job)
        with pytest.raises(BudgetSpent, match=r"limits\.calls is reached"):
            await run_training(again, watch=unseen)
        assert worker.pipes is not None
        assert worker.pipes.sent == 0
    cache = SqliteCache(Layout(job.out).cache, read_only=True)
    assert sum(each.calls for each in cache.spent().values()) == 5
    assert len(cache.rollouts()) == 3  # besides the first words to both models
    cache.close()


async def test_attempts_of_a_lost_worker_are_failures_and_a_later_run_makes_them(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as simulator:
        job = Job(url=simulator.url, data=data, out=tmp_path / "run", epochs=1, batch=8)
        brief, worker = prepared(job)

        def kill(event: Event | Signal) -> None:
            del event
            if worker.pipes is not None and worker.pipes.process.returncode is None:
                worker.pipes.process.kill()

        with pytest.raises(Unmeasurable, match="the worker is gone"):
            await run_training(brief, watch=kill)
        again, _ = prepared(job)
        result = await run_training(again, watch=unseen)
    assert not result.state.best.evaluation.failures


def spec_of(run_spec: RunSpec, **changes: str) -> RolloutSpec:
    task = run_spec.environment.tasks("train")[0]
    spec = RolloutSpec(
        task=task,
        skill=run_spec.skill,
        digest=run_spec.skill.digest,
        environment=run_spec.environment.fingerprint,
        harness="",
    )
    return replace(spec, **changes)


async def test_a_worker_with_other_settings_refuses_the_attempt_and_so_ends_the_run(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    job = Job(url="http://127.0.0.1:9", data=data, out=tmp_path / "run")
    brief, _ = prepared(job)
    async with open_worker(brief.config) as worker:
        executor = RemoteExecutor(worker.answer, Budget(Meter()))
        with pytest.raises(ConfigError, match="the environment of a worker"):
            await executor.run(spec_of(brief, environment="another"))
        with pytest.raises(ConfigError, match="the harness of a worker"):
            await executor.run(spec_of(brief, harness="another"))


async def test_what_a_worker_tells_that_is_no_answer_costs_the_attempt_its_score(
    tmp_path: Path,
) -> None:
    async def garbage(_: bytes) -> bytes:
        return b"killed"

    brief, _ = prepared(Job(url="http://127.0.0.1:9", data=make_data(tmp_path), out=tmp_path))
    with pytest.raises(HarnessError, match="cannot be read"):
        await RemoteExecutor(garbage, Budget(Meter())).run(spec_of(brief))


async def test_nothing_is_sent_to_a_worker_when_a_limit_is_reached(tmp_path: Path) -> None:
    sent: list[bytes] = []

    async def exchange(line: bytes) -> bytes:
        sent.append(line)
        return b""

    brief, _ = prepared(Job(url="http://127.0.0.1:9", data=make_data(tmp_path), out=tmp_path))
    with pytest.raises(BudgetSpent):
        await RemoteExecutor(exchange, Budget(Meter(), Limits(calls=0))).run(spec_of(brief))
    assert not sent
