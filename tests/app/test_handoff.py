"""Questions to people: laid out in files, phase by phase; the same command goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support_runs import Job, facts, make_data

from skillopt.api import Result
from skillopt.errors import Pending, StoreError
from skillopt.testing.simulator import SimulatedOptimizer, SimulatedTarget, Simulator
from skillopt.testing.simulator.optimizer import stage_of

TURN = re.compile(r"^===== (\w+) =====\n", re.MULTILINE)
Answer = Callable[[str, list[str]], str]


def turns(question: Path) -> tuple[str, list[str]]:
    """The system's text and the user's, as a reader of the file finds them."""
    _, *parts = TURN.split(question.read_text("utf-8"))
    said = list(zip(parts[::2], parts[1::2], strict=True))
    system = "\n".join(text.strip("\n") for who, text in said if who == "system")
    return system, [text.strip("\n") for who, text in said if who == "user"]


def by_optimizer(system: str, users: list[str]) -> str:
    stage = stage_of(system)
    assert stage is not None
    return SimulatedOptimizer().answer(stage, system, users[0], repairing=len(users) > 1)


def by_target(system: str, users: list[str]) -> str:
    return SimulatedTarget().answer(system, users[-1])


def open_questions(run: Path) -> list[Path]:
    found = sorted((run / "handoff").rglob("*.question.md"))
    return [each for each in found if not answer_to(each).exists()]


def answer_to(question: Path) -> Path:
    return question.with_name(question.name.replace(".question.", ".answer."))


async def answered(job: Job, role: str, answer: Answer) -> tuple[Result, list[int]]:
    """Run again and again, answering everything in between; how much was asked each time."""
    counts: list[int] = []
    while (result := await finished(job, role)) is None:
        questions = open_questions(job.out)
        counts.append(len(questions))
        for each in questions:
            answer_to(each).write_text(answer(*turns(each)) + "\n", encoding="utf-8")
    return result, counts


async def finished(job: Job, role: str) -> Result | None:
    """The result; None when there were questions, all of which lie open."""
    try:
        return await job.here({f"model.{role}_backend": "handoff"})
    except Pending as pending:
        told = sorted(pending.questions)
    assert told == [str(each.relative_to(job.out / "handoff")) for each in open_questions(job.out)]
    return None


async def test_an_optimizer_by_hand_ends_as_a_served_one_does(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    async with Simulator() as sim:
        served = Job(url=sim.url, data=data, out=tmp_path / "served", epochs=1, batch=4)
        expected = await served.here()
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=4)
        result, counts = await answered(job, "optimizer", by_optimizer)
    assert result.best_skill == expected.best_skill
    assert facts(job.out)[1:] == facts(served.out)[1:]
    assert len(counts) >= 2


async def test_all_attempts_of_an_evaluation_are_asked_for_at_once(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (4, 6, 3))
    async with Simulator() as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=4, workers=2)
        _, counts = await answered(job, "target", by_target)
    assert counts[:2] == [6, 4]


async def test_partial_answers_are_taken_and_only_the_rest_is_asked_for(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (4, 6, 3))
    by_hand = {"model.target_backend": "handoff"}
    async with Simulator() as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=4)
        with pytest.raises(Pending):
            await job.here(by_hand)
        first, *rest = open_questions(job.out)
        before = first.stat().st_mtime_ns
        answer_to(first).write_text(by_target(*turns(first)), encoding="utf-8")
        answer_to(rest[0]).write_text(" \n", encoding="utf-8")
        with pytest.raises(Pending, match=r"5 questions wait in .*handoff"):
            await job.here(by_hand)
        answer_to(first).unlink()
        with pytest.raises(Pending) as again:
            await job.here(by_hand)
    assert len(again.value.questions) == 5
    assert first.stat().st_mtime_ns == before


async def test_an_answer_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (4, 6, 3))
    async with Simulator() as sim:
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=4)
        with pytest.raises(Pending):
            await job.here({"model.target_backend": "handoff"})
        answer_to(open_questions(job.out)[0]).write_bytes(b"\xff\xfe\x00")
        with pytest.raises(StoreError, match="not UTF-8"):
            await job.here({"model.target_backend": "handoff"})
