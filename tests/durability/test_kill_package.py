"""A skill of several files is trained, killed and continued like one of a single file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support_runs import Job, finished, killed, make_data, make_package, told, until_quiet

from skillopt.api import Result
from skillopt.core.skill import MAIN
from skillopt.store.packages import read_skill
from skillopt.testing.simulator import Simulator

SIZES = (24, 16, 8)


def job(url: str, data: Path, out: Path) -> Job:
    return Job(url=url, data=data, out=out, start="package", epochs=2, batch=12)


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, int]:
    """The run that nobody disturbs: its data, what came out, and how many calls it takes."""
    folder = tmp_path_factory.mktemp("uncut")
    data = make_data(folder / "data", SIZES)
    make_package(data / "package")

    async def run() -> tuple[Result, int]:
        async with Simulator(seed=1) as sim:
            result = await job(sim.url, data, folder / "run").here()
            return result, await until_quiet(sim)

    result, calls = asyncio.run(run())
    return data, result, calls


def test_training_writes_rules_into_the_document_and_into_references(
    uncut: tuple[Path, Result, int],
) -> None:
    data, result, _ = uncut
    first, best = read_skill(data / "package"), result.state.best.skill
    assert result.score > result.state.initial.value + 0.2
    assert best.front == first.front != ""
    assert best.body != first.body
    changed = [
        new.path
        for old, new in zip(first.references, best.references, strict=True)
        if old.text != new.text
    ]
    assert changed
    rules = [
        line for each in best.references for line in each.text.splitlines() if line.startswith("-")
    ]
    assert rules
    assert not any(rule in best.main.render() for rule in rules)


def test_the_run_directory_has_every_skill_as_one_file_and_as_a_folder(
    uncut: tuple[Path, Result, int],
) -> None:
    data, result, _ = uncut
    out, best = result.out, result.state.best.skill
    assert read_skill(out / "best_skill.md") == read_skill(out / "best_skill") == best
    assert result.best_skill == (out / "best_skill.md").read_bytes().decode()
    start = read_skill(data / "package")
    assert read_skill(out / "skills" / "skill_v0000") == start
    assert (out / "skills" / "skill_v0000" / MAIN).read_bytes() == (
        data / "package" / MAIN
    ).read_bytes()
    step = out / "steps" / "step_0001"
    assert read_skill(step / "candidate_skill") == read_skill(step / "candidate_skill.md")


@pytest.mark.parametrize("moment", range(3))
async def test_a_killed_run_with_a_package_ends_as_if_it_had_not_been_killed(
    moment: int, uncut: tuple[Path, Result, int], tmp_path: Path
) -> None:
    data, whole, calls = uncut
    async with Simulator(seed=1, latency=(0.0, 0.01)) as sim:
        again = job(sim.url, data, tmp_path / "run")
        lost = await killed(again, sim, moment, calls)
        await finished(again)
        assert told(again.out) == told(whole.out)
        assert read_skill(again.out / "best_skill") == whole.state.best.skill
        assert await until_quiet(sim) == calls + lost
