"""One door for every change of the skill: measure, ask the gate, buy more evidence, decide."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support import Seen, Sums, World, analysis, teacher

from skillopt.analysis.report import claim
from skillopt.core.chat import Request
from skillopt.core.edits import Append
from skillopt.core.events import Begun, Fact, Measured, PhaseOpened
from skillopt.core.facts import Stepped
from skillopt.core.ports import CompleteGate
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.engine.candidate_evaluation import CandidateEvaluation, CandidateResult, Replication
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.errors import ModelError
from skillopt.gates.compared import Metric, Strict
from skillopt.gates.tested import Paired, Sequential
from skillopt.model.scripted import Scripted

SEED = Skill.parse("You add numbers.\n")
STRICT = Strict(Metric())
SHORT = PlanSettings(epochs=1, batch=8, seed=0)


def moody(request: Request) -> str:
    """Right about sums below 105 if told to take care; on the second try, about all of them."""
    skill, question = request.messages[0].text, request.messages[1].text
    left, right = map(int, question.split(" + "))
    able = left < 105 or request.replicate > 0
    return str(left + right) if "carefully" in skill and able else "0"


def stubborn(request: Request) -> str:
    """As moody, however often it tries."""
    return moody(replace(request, replicate=0))


def careful(request: Request) -> str:
    return analysis("Add carefully.") if request.stage == "analyst" else teacher(request)


def world(**changes: object) -> World:
    start = World(
        env=Sums(size=8),
        target=Scripted(moody),
        optimizer=Scripted(careful),
        gate=Paired(STRICT.metric, alpha=0.05),
        shape=SHORT,
        final_test=False,
    )
    return replace(start, **changes)


async def trained(start: World) -> tuple[State, list[Stepped]]:
    record = MemoryLog()
    state = await train(start.but(record=record).run(), SEED)
    return state, [event for event in record.kept if isinstance(event, Stepped)]


async def test_what_cannot_be_told_apart_is_rejected_as_inconclusive() -> None:
    state, (step,) = await trained(world(gate=Paired(STRICT.metric, alpha=0.01)))
    decision = step.decision
    assert decision is not None
    assert (decision.action, decision.inconclusive) == ("reject", True)
    assert decision.reason == "5 better, 0 worse of 8, p 0.031 > 0.01"
    assert state.current.skill == SEED
    assert state.spent == decision.level == 0.01
    (entry,) = state.memory.steps
    assert entry.undecided == (Append("- Add carefully."),)
    assert not state.memory.disproved


async def test_replicates_are_bought_for_both_sides_until_the_gate_can_tell() -> None:
    gate = Paired(STRICT.metric, alpha=0.02, looks=2)
    state, (step,) = await trained(world(gate=gate, replication=Replication(most=2)))
    decision = step.decision
    assert decision is not None
    assert decision.action == "accept_new_best"
    assert [len(each) for each in decision.candidate.evaluation.replicates] == [8, 8]
    assert decision.incumbent is not None
    assert [len(each) for each in decision.incumbent.evaluation.replicates] == [8, 8]
    assert state.current.value == 13 / 16


async def test_replicates_may_be_bought_only_where_the_two_sides_differ() -> None:
    gate = Sequential(STRICT.metric, alpha=0.001)
    replication = Replication(most=4, changed_only=True)
    _, (step,) = await trained(world(gate=gate, replication=replication))
    decision = step.decision
    assert decision is not None
    changed = {f"val-{n}" for n in range(100, 105)}
    for side in (decision.candidate, decision.incumbent):
        assert side is not None
        first, *later = side.evaluation.replicates
        assert len(first) == 8
        assert later
        assert all(set(marks) == changed for marks in later)


async def test_nothing_is_bought_that_could_not_change_the_verdict() -> None:
    """Five tasks differ, so a sign test over them has p 1/32 at best, however often it is asked."""
    gate = Paired(STRICT.metric, alpha=0.001, looks=3)
    replication = Replication(most=3, changed_only=True)
    _, (step,) = await trained(world(gate=gate, replication=replication))
    decision = step.decision
    assert decision is not None
    assert (decision.inconclusive, decision.incumbent) == (True, None)
    assert len(decision.candidate.evaluation.replicates) == 1
    assert decision.reason == "5 better, 0 worse of 8, p 0.031 > 0.00033"


async def test_what_the_current_skill_has_been_tried_on_is_not_bought_again() -> None:
    asked: list[tuple[str, int]] = []

    def counting(request: Request) -> str:
        skill, question = request.messages[0].text, request.messages[1].text
        if "carefully" not in skill:
            asked.append((question, request.replicate))
        left, right = map(int, question.split(" + "))
        able = "carefully" in skill and left < 105 and not request.replicate
        return str(left + right) if able else "0"

    rules = iter(("Add carefully.", "Third time carefully."))
    start = world(
        target=Scripted(counting),
        optimizer=Scripted(lambda r: analysis(next(rules)) if r.stage == "analyst" else ""),
        gate=Sequential(STRICT.metric, alpha=0.02),
        replication=Replication(most=2, changed_only=True),
        shape=PlanSettings(epochs=1, batch=4, seed=0),
        seen=(seen := Seen()),
    )
    _, steps = await trained(start)
    assert all(step.decision is not None and step.decision.inconclusive for step in steps)
    assert len(steps) == 2
    opened = [event for event in seen.events if isinstance(event, PhaseOpened)]
    phase = f"replicate 2 {SEED.digest[:6]}"
    bought = [event for event in opened if event.phase == phase]
    assert bought == [PhaseOpened("step_0001", phase, 5)]
    assert sum(replicate for _, replicate in asked) == 5
    assert len(asked) == len(set(asked))


async def test_a_failed_replicate_of_a_few_tasks_does_not_end_the_run() -> None:
    def shaky(request: Request) -> str:
        if request.replicate and request.messages[1].text.startswith("100 "):
            raise ModelError("down")
        return moody(request)

    _, (step,) = await trained(
        world(
            target=Scripted(shaky),
            gate=Sequential(STRICT.metric, alpha=0.01),
            replication=Replication(most=2, changed_only=True),
        )
    )
    decision = step.decision
    assert decision is not None
    assert [len(marks) for marks in decision.candidate.evaluation.replicates] == [8, 4]


async def hear(seed: int, gate: CompleteGate, level: float) -> CandidateResult:
    """A candidate that changes nothing, before a gate that may buy evidence where sides differ."""

    def coin(request: Request) -> str:
        skill, question = request.messages[0].text, request.messages[1].text
        left, right = map(int, question.split(" + "))
        chance = random.Random(left).random()
        fell = random.Random(f"{seed} {skill} {question} {request.replicate}").random() < chance
        return str(left + right) if fell else "0"

    env = Sums(size=24)
    runner = World(env=env, target=Scripted(coin)).runner()
    hearing = CandidateEvaluation(
        runner=runner,
        tasks=env.tasks("val"),
        gate=gate,
        level=level,
        replication=Replication(most=3, changed_only=True, block=8),
    )
    evaluation = await runner.measure(SEED, "val", env.tasks("val"), "evaluate")
    first = Measured(SEED, evaluation, gate.value(SEED, evaluation), "initial_skill", 0)
    return await hearing.run(Skill.parse("You add numbers!\n"), "x", 1, first)


@pytest.mark.parametrize("kind", ["paired", "sequential"])
async def test_buying_where_sides_differ_keeps_the_rate_of_false_accepts(kind: str) -> None:
    level, trials = 0.2, 300
    gates: dict[str, CompleteGate] = {
        "paired": Paired(STRICT.metric, alpha=level, looks=3),
        "sequential": Sequential(STRICT.metric, alpha=level),
    }
    heard = [await hear(seed, gates[kind], level) for seed in range(trials)]
    bought = [each for each in heard if len(each.candidate.evaluation.replicates) > 1]
    assert len(bought) > 60
    # At exactly 20 %, 300 trials would exceed 76 in 1 % of all cases; the seeds make it one case.
    assert sum(each.verdict.finding == "better" for each in heard) <= 76


async def test_no_more_replicates_are_bought_than_allowed() -> None:
    gate = Paired(STRICT.metric, alpha=0.02, looks=3)
    start = world(target=Scripted(stubborn), gate=gate, replication=Replication(most=3))
    _, (step,) = await trained(start)
    decision = step.decision
    assert decision is not None
    assert decision.inconclusive
    assert len(decision.candidate.evaluation.replicates) == 3


async def test_a_skill_measured_again_is_known_by_all_its_measurements() -> None:
    gate = Paired(STRICT.metric, alpha=0.01, looks=2)
    start = world(target=Scripted(stubborn), gate=gate, replication=Replication(most=2))
    state, _ = await trained(start)
    assert len(state.current.evaluation.replicates) == 2
    assert state.current == state.best


async def test_replicates_bought_for_the_initial_skill_do_not_change_the_score_it_began_with() -> (
    None
):
    """It is asked again only where it looked worse; here it is luckier the second time."""

    def lucky(request: Request) -> str:
        second = request.replicate > 0 and "carefully" not in request.messages[0].text
        return (
            str(sum(map(int, request.messages[1].text.split(" + ")))) if second else moody(request)
        )

    gate = Paired(STRICT.metric, alpha=0.02, looks=2)
    start = world(target=Scripted(lucky), gate=gate, replication=Replication(most=2))
    record = MemoryLog()
    state = await train(start.but(record=record).run(), SEED)
    (begun,) = [event for event in record.kept if isinstance(event, Begun)]
    assert state.current.skill == SEED
    assert (state.initial.value, state.current.value) == (0.0, 0.5)
    assert state.initial == begun.initial
    assert claim(state).gain.mean == 0


async def test_replicates_are_averaged_wherever_a_skill_is_evaluated() -> None:
    state, _ = await trained(
        world(gate=STRICT, replication=Replication(replicates=2), final_test=True)
    )
    assert state.best.value == 13 / 16
    assert state.best.evaluation.passed == 5 / 8
    assert state.final_test is not None
    assert len(state.final_test.best.rounds) == 2


async def test_a_tested_run_cut_after_any_event_ends_as_if_it_had_not_been_cut() -> None:
    for gate, replication in (
        (Paired(STRICT.metric, alpha=0.02, looks=2), Replication(most=2)),
        (Paired(STRICT.metric, alpha=0.02, looks=3), Replication(most=3, changed_only=True)),
        (Sequential(STRICT.metric, alpha=0.05), Replication(most=2)),
    ):
        start = world(
            gate=gate, slow_gate=gate, replication=replication, shape=replace(SHORT, epochs=3)
        )
        whole = MemoryLog()
        expected = await train(start.but(record=whole).run(), SEED)
        facts = [event for event in whole.kept if isinstance(event, Fact)]
        for cut in range(len(whole.kept)):
            record = MemoryLog(list(whole.kept[:cut]))
            assert await train(start.but(record=record).run(), SEED) == expected
            assert [event for event in record.kept if isinstance(event, Fact)] == facts
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
            shape=PlanSettings(epochs=2, batch=4, sample=2, last_sample=2, seed=0),
            replication=Replication(block=block),
        )
        ends[block], steps = await trained(start)
        asked[block] = count
        told[block] = [(step.action, step.decision is not None) for step in steps]
        saved = sum(step.decision.saved for step in steps if step.decision is not None)
        assert (saved > 0) is (block > 0)
    assert told[0] == told[2]
    assert "reject" in dict(told[0])
    assert ends[0].best == ends[2].best
    assert ends[0].final_test == ends[2].final_test
    assert asked[2] < asked[0]


async def test_a_candidate_that_is_given_up_is_rated_by_the_most_it_could_have_reached() -> None:
    start = World(
        env=Sums(size=8),
        target=Scripted(fickle),
        optimizer=Scripted(lambda r: analysis("Go boldly.") if r.stage == "analyst" else ""),
        shape=SHORT,
        replication=Replication(block=3),
        final_test=False,
    )
    _, (step,) = await trained(start)
    decision = step.decision
    assert decision is not None
    assert (decision.action, decision.saved) == ("reject", 2)
    assert decision.candidate.evaluation.n == 6
    assert decision.candidate.value == 3 / 8
