"""One door for every change of the skill: measure, ask the gate, buy more evidence, decide."""

from __future__ import annotations

from dataclasses import replace

from support import Sums, World, analysis, teacher

from skillopt.core.chat import Request
from skillopt.core.events import Progress, Stepped
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.engine.hearing import Sampling
from skillopt.engine.loop import train
from skillopt.engine.plan import Shape
from skillopt.evaluation.gates import Metric, Strict
from skillopt.evaluation.tested import Paired, Sequential
from skillopt.model.scripted import Scripted
from skillopt.testing.doubles import MemoryRecord

SEED = Skill.parse("You add numbers.\n")
STRICT = Strict(Metric())
SHORT = Shape(epochs=1, batch=8, seed=0)


def moody(request: Request) -> str:
    """Right about sums below 105 if told to take care; on the second try, about all of them."""
    skill, question = request.messages[0].text, request.messages[1].text
    left, right = map(int, question.split(" + "))
    able = left < 105 or request.replicate > 0
    return str(left + right) if "carefully" in skill and able else "0"


def careful(request: Request) -> str:
    return analysis("Add carefully.") if request.stage == "analyst" else teacher(request)


def world(**changes: object) -> World:
    start = World(
        env=Sums(size=8),
        target=Scripted(moody),
        optimizer=Scripted(careful),
        gate=Paired(strict=STRICT, alpha=0.05),
        shape=SHORT,
        exam=False,
    )
    return replace(start, **changes)


async def trained(start: World) -> tuple[State, list[Stepped]]:
    record = MemoryRecord()
    state = await train(start.but(record=record).run(), SEED)
    return state, [event for event in record.kept if isinstance(event, Stepped)]


async def test_what_cannot_be_told_apart_is_rejected_as_inconclusive() -> None:
    state, (step,) = await trained(world(gate=Paired(strict=STRICT, alpha=0.01)))
    decision = step.decision
    assert decision is not None
    assert (decision.action, decision.inconclusive) == ("reject", True)
    assert decision.reason == "5 better, 0 worse of 8, p 0.031 > 0.01"
    assert state.current.skill == SEED
    assert state.spent == decision.level == 0.01


async def test_replicates_are_bought_for_both_sides_until_the_gate_can_tell() -> None:
    gate = Paired(strict=STRICT, alpha=0.02, looks=2)
    state, (step,) = await trained(world(gate=gate, sampling=Sampling(most=2)))
    decision = step.decision
    assert decision is not None
    assert decision.action == "accept_new_best"
    assert [len(each) for each in decision.candidate.evaluation.replicates] == [8, 8]
    assert decision.incumbent is not None
    assert [len(each) for each in decision.incumbent.evaluation.replicates] == [8, 8]
    assert (state.initial, state.current.value) == (decision.incumbent, 13 / 16)


async def test_no_more_replicates_are_bought_than_allowed() -> None:
    gate = Paired(strict=STRICT, alpha=0.001, looks=3)
    _, (step,) = await trained(world(gate=gate, sampling=Sampling(most=3)))
    decision = step.decision
    assert decision is not None
    assert decision.inconclusive
    assert len(decision.candidate.evaluation.replicates) == 3


async def test_a_skill_measured_again_is_known_by_all_its_measurements() -> None:
    gate = Paired(strict=STRICT, alpha=0.001, looks=2)
    state, _ = await trained(world(gate=gate, sampling=Sampling(most=2)))
    assert len(state.current.evaluation.replicates) == 2
    assert state.current == state.best == state.initial


async def test_replicates_are_averaged_wherever_a_skill_is_evaluated() -> None:
    state, _ = await trained(world(gate=STRICT, sampling=Sampling(replicates=2), exam=True))
    assert state.best.value == 13 / 16
    assert state.best.evaluation.passed == 5 / 8
    assert state.exam is not None
    assert len(state.exam.best.rounds) == 2


async def test_a_tested_run_cut_after_any_event_ends_as_if_it_had_not_been_cut() -> None:
    for gate in (
        Paired(strict=STRICT, alpha=0.02, looks=2),
        Sequential(strict=STRICT, alpha=0.05),
    ):
        start = world(
            gate=gate, slow_gate=gate, sampling=Sampling(most=2), shape=replace(SHORT, epochs=3)
        )
        whole = MemoryRecord()
        expected = await train(start.but(record=whole).run(), SEED)
        facts = [event for event in whole.kept if isinstance(event, Progress)]
        for cut in range(len(whole.kept)):
            record = MemoryRecord(list(whole.kept[:cut]))
            assert await train(start.but(record=record).run(), SEED) == expected
            assert [event for event in record.kept if isinstance(event, Progress)] == facts
            assert replay(record.kept) == expected


def fickle(request: Request) -> str:
    """Boldness repairs one sum and breaks three; care repairs all."""
    skill, question = request.messages[0].text, request.messages[1].text
    left, right = map(int, question.split(" + "))
    if "carefully" in skill:
        return str(left + right)
    able = left % 8 == 7 if "boldly" in skill else left % 8 < 5
    return str(left + right) if able else "0"


async def test_curtailed_runs_decide_the_same_with_fewer_attempts() -> None:
    asked: dict[int, int] = {}
    ends: dict[int, State] = {}
    told: dict[int, list[tuple[str, bool]]] = {}
    for block in (0, 2):
        count = 0

        def counting(request: Request) -> str:
            nonlocal count
            count += 1
            return fickle(request)

        start = World(
            env=Sums(size=16),
            target=Scripted(counting),
            shape=Shape(epochs=2, batch=4, sample=2, last_sample=2, seed=0),
            sampling=Sampling(block=block),
        )
        ends[block], steps = await trained(start)
        asked[block] = count
        told[block] = [(step.action, step.decision is not None) for step in steps]
        saved = sum(step.decision.saved for step in steps if step.decision is not None)
        assert (saved > 0) is (block > 0)
    assert told[0] == told[2]
    assert "reject" in dict(told[0])
    assert ends[0].best == ends[2].best
    assert ends[0].exam == ends[2].exam
    assert asked[2] < asked[0]


async def test_a_candidate_that_is_given_up_is_rated_by_the_most_it_could_have_reached() -> None:
    start = World(
        env=Sums(size=8),
        target=Scripted(fickle),
        optimizer=Scripted(lambda r: analysis("Go boldly.") if r.stage == "analyst" else ""),
        shape=SHORT,
        sampling=Sampling(block=3),
        exam=False,
    )
    _, (step,) = await trained(start)
    decision = step.decision
    assert decision is not None
    assert (decision.action, decision.saved) == ("reject", 2)
    assert decision.candidate.evaluation.n == 6
    assert decision.candidate.value == 3 / 8
