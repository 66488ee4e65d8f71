"""Who decides how many proposals a step may use, and within which bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Seen
from support_runs import Uncut, kill_and_resume, run_uncut

from skillopt.api import train
from skillopt.core.chat import Request
from skillopt.core.edits import Append
from skillopt.core.memory import Memory, regression_share
from skillopt.core.proposal import Proposal, ProposalSet, Rate
from skillopt.core.rollout import Evaluation, Failure, Rollout, Score
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import ConfigError
from skillopt.model.scripted import Scripted
from skillopt.optimizer.learning_rate import Autonomous, AutonomousOr, Steadying
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

MERGED = ProposalSet(tuple(Proposal(Append(str(n)), "failure", ("t",)) for n in range(5)))
SKILL = Skill.parse("# Job\n")


async def attempts() -> AsyncIterator[Rollout]:
    yield Rollout(task="a", skill="d", outcome=Score(1.0, 1.0))
    yield Rollout(task="b", skill="d", outcome=Score(0.0, 0.5))
    yield Rollout(task="c", skill="d", outcome=Failure("ModelError", "down"))


async def decided(reply: str, *, scheduled: int | None = 3, fallback: int | None = None) -> Rate:
    asker = Asker(Scripted(lambda _: reply), Library(), EventSink(MemoryLog(), Seen()))
    rate = (
        Autonomous(asker=asker) if fallback is None else AutonomousOr(asker=asker, lowest=fallback)
    )
    return await rate(SKILL, [attempts()], MERGED, Memory(), scheduled=scheduled)


async def test_the_optimizer_decides_and_says_why() -> None:
    said = {"learning_rate": 4, "reasoning": "r", "confidence": 0.7, "risk_notes": "overlap"}
    rate = await decided(json.dumps(said))
    assert (rate.value, rate.wanted, rate.available, rate.clamped) == (4, 4, 5, False)
    assert (rate.reasoning, rate.confidence, rate.risks) == ("r", "0.7", ("overlap",))
    assert json.loads(rate.reply)["learning_rate"] == 4


@pytest.mark.parametrize(("wanted", "value"), [(99, 5), (-1, 0), (0, 0)])
async def test_a_decision_is_held_to_what_there_is(wanted: int, value: int) -> None:
    rate = await decided(json.dumps({"learning_rate": wanted}))
    assert (rate.value, rate.wanted, rate.clamped) == (value, wanted, wanted != value)


@pytest.mark.parametrize(
    ("scheduled", "fallback", "value"), [(3, None, 3), (9, None, 5), (4, 2, 2), (None, None, 5)]
)
async def test_without_a_usable_answer_schedule_or_minimum_hold_and_it_is_said(
    scheduled: int | None, fallback: int | None, value: int
) -> None:
    rate = await decided("as many as you like", scheduled=scheduled, fallback=fallback)
    assert (rate.value, rate.wanted) == (value, None)
    assert "no usable answer" in rate.problem


async def test_the_question_shows_skill_memory_results_and_proposals() -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return '{"learning_rate": 1}'

    asker = Asker(Scripted(answer), Library(), EventSink(MemoryLog(), Seen()))
    memory = Memory(lessons="be bold")
    await Autonomous(asker=asker)(SKILL, [attempts()], MERGED, memory, scheduled=3)
    text = asked[0].messages[1].text
    for shown in ("# Job", "be bold", "n: 2\nhard: 0.5000\nsoft: 0.7500", '"index": 4'):
        assert shown in text
    assert asked[0].stage == "lr_autonomous"


def marks(*values: float) -> Evaluation:
    return Evaluation("d", "val", {str(n): Score(value, value) for n, value in enumerate(values)})


@pytest.mark.parametrize(
    ("after", "share"),
    [((0, 0, 1, 1), 0.0), ((1, 1, 1, 1), 0.0), ((1, 0, 0, 1), 0.5), ((0, 0, 0, 0), 1.0)],
)
def test_a_swing_is_the_share_of_changed_tasks_that_got_worse(
    after: tuple[float, ...], share: float
) -> None:
    assert regression_share(marks(0, 0, 1, 1), marks(*after)) == share


def test_tasks_without_a_score_on_both_sides_do_not_count() -> None:
    assert regression_share(marks(1, 1), Evaluation("d", "val", {"0": Score(1, 1)})) == 0.0


@given(st.lists(st.sampled_from([(0, 0, 1, 1), (1, 1, 1, 1), (1, 0, 0, 1), (0, 0, 0, 0)])))
def test_the_rate_stays_within_its_bounds_whatever_happens(
    steps: list[tuple[float, ...]],
) -> None:
    memory = Memory()
    for after in steps:
        memory = memory.update_volatility(marks(0, 0, 1, 1), marks(*after))
    rate = asyncio.run(Steadying(6, 2)(SKILL, [], MERGED, memory, scheduled=6))
    assert 2 <= rate.value <= 6


async def test_the_rate_falls_while_outcomes_swing_and_rises_while_they_agree() -> None:
    memory, rates = Memory(), list[int]()
    worse, better = marks(0, 0, 0, 0), marks(1, 1, 1, 1)
    for after in (better, worse, worse, better, better, better):
        memory = memory.update_volatility(marks(0, 0, 1, 1), after)
        rates.append((await Steadying(6, 2)(SKILL, [], MERGED, memory, scheduled=6)).value)
    assert rates == [6, 2, 2, 3, 4, 5]


@pytest.mark.parametrize("control", ["none", "volatility"])
def test_a_schedule_that_asks_excludes_other_ways_to_decide(control: str) -> None:
    rows = [{"input": str(n), "answer": str(n)} for n in range(4)]
    settings = {"lr_scheduler": "autonomous", "lr_control_mode": control}
    with pytest.raises(ConfigError, match="cannot be combined"):
        train(train=rows[:2], val=rows[2:], skill="s", settings=settings)


@pytest.fixture(scope="module", params=["autonomous", "none", "volatility"])
def uncut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    """A run with each way to decide."""
    control = cast("str", request.param)
    return run_uncut(tmp_path_factory.mktemp(control), epochs=1, optimizer__lr_control_mode=control)


def test_every_run_ends_above_its_baseline_and_tells_what_was_decided(uncut: Uncut) -> None:
    out = uncut.job.out
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["test_delta_hard"] > 0.1
    record = json.loads((out / "steps/step_0001/step_record.json").read_text(encoding="utf-8"))
    if uncut.job.more["optimizer.lr_control_mode"] == "none":
        assert record["edit_budget"] is None
        assert record["n_edits_ranked"] == record["n_edits_merged"]
        assert not (out / "lr_history.jsonl").exists()
        return
    decision = json.loads((out / "steps/step_0001/lr_decision.json").read_text(encoding="utf-8"))
    assert decision == record["lr_decision"]
    assert decision["learning_rate"] == record["edit_budget"]
    assert {
        "raw_learning_rate",
        "available_update_items",
        "clamped",
        "fallback",
        "reasoning",
        "confidence",
        "risk_notes",
        "raw_response",
    } < decision.keys()
    lines = (out / "lr_history.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {"step": 1, "epoch": 1, **decision}
    assert len(lines) == 2


async def test_a_killed_run_decides_the_same_again(uncut: Uncut, tmp_path: Path) -> None:
    await kill_and_resume(1, uncut, tmp_path / "run")
