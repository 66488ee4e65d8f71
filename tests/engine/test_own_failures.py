"""Promise: a task that fails only with the candidate counts against the candidate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from support import Sums, World, analysis, teacher

from skillopt.analysis.pruning import Prune
from skillopt.analysis.report import claim
from skillopt.core.chat import Request
from skillopt.core.events import Decision, FinalTested, Measured, Note
from skillopt.core.facts import Stepped
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Split, Task
from skillopt.engine.candidate_evaluation import CandidateEvaluation, CandidateResult, Replication
from skillopt.engine.halving import Baseline, HalveByGain, SuccessiveHalving
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.errors import AccessError, ModelError, Unmeasurable
from skillopt.gates.compared import Always, Metric, NoRegression, Strict
from skillopt.gates.tested import Paired, Sequential
from skillopt.model.scripted import Scripted
from skillopt.testing.doubles import MemoryCache

OLD = Skill.parse("You add numbers.\n")
NEW = Skill.parse("You add numbers boldly.\n")
STRICT = Strict(Metric())
ONE_STEP = PlanSettings(epochs=1, batch=12, seed=0)


@dataclass(slots=True)
class Target:
    """Passes all but the first task of a split; told to be bold, it passes that and raises on some.

    `flaky` tasks raise at the first attempt with a skill that is bold; `down` ones always raise
    once the bold skill has met them.
    """

    raising: frozenset[int] = frozenset()
    flaky: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()
    asked: list[tuple[bool, int]] = field(default_factory=list[tuple[bool, int]])

    def __call__(self, request: Request) -> str:
        bold = "boldly" in request.messages[0].text
        left, right = map(int, request.messages[1].text.split(" + "))
        place = left % 100
        first = (bold, left) not in self.asked
        self.asked.append((bold, left))
        failing = bold and (place in self.raising or (place in self.flaky and first))
        outage = place in self.down and (True, left) in self.asked
        if failing or outage:
            raise ModelError(f"no reply to {left}")
        return str(left + right) if bold or place else "0"


def proposing(request: Request) -> str:
    match request.stage:
        case "analyst":
            return analysis("Guess boldly.")
        case "merge":
            edit = {"op": "append", "content": "- Guess boldly.", "from": [0]}
            return json.dumps({"edits": [edit]})
        case _:
            return teacher(request)


def beside(skill: Skill, evaluation: Evaluation) -> Measured:
    return Measured(skill, evaluation, evaluation.hard, "beside", 0)


async def hear(
    target: Target, gate: CompleteGate = STRICT, *, block: int = 0, replicates: int = 1
) -> CandidateResult:
    env = Sums(size=12)
    runner = World(env=env, target=Scripted(target)).runner()
    tasks = env.tasks("val")
    rounds = range(replicates)
    evaluation = await runner.measure(OLD, "val", tasks, "evaluate", replicates=rounds)
    incumbent = Measured(OLD, evaluation, gate.value(OLD, evaluation), "initial_skill", 0)
    hearing = CandidateEvaluation(
        runner=runner,
        tasks=tasks,
        gate=gate,
        level=0.5,
        replication=Replication(replicates=replicates, block=block),
    )
    return await hearing.run(NEW, "step_0001", 1, incumbent)


async def trained(target: Target, **changes: object) -> tuple[State, Decision]:
    record = MemoryLog()
    world = World(
        env=Sums(size=12),
        target=Scripted(target),
        optimizer=Scripted(proposing),
        record=record,
        shape=ONE_STEP,
        minibatch=12,
    )
    state = await train(replace(world, **changes).run(), OLD)
    (step,) = [event for event in record.kept if isinstance(event, Stepped)]
    assert step.decision is not None
    return state, step.decision


FOUR = frozenset({3, 5, 7, 9})
GATES: Sequence[CompleteGate] = [
    STRICT,
    NoRegression(STRICT.metric),
    NoRegression(STRICT.metric, max_broken=0.2),
    Paired(STRICT.metric, alpha=0.5),
    Sequential(STRICT.metric, alpha=0.5),
]


@pytest.mark.parametrize("block", [0, 1, 5])
@pytest.mark.parametrize("gate", GATES)
async def test_a_candidate_that_repairs_one_task_and_makes_four_raise_is_rejected_by_every_gate(
    gate: CompleteGate, block: int
) -> None:
    heard = await hear(Target(raising=FOUR), gate, block=block)
    assert heard.verdict.finding != "better"


async def test_a_task_that_only_the_candidate_fails_is_broken() -> None:
    heard = await hear(Target(raising=FOUR), NoRegression(STRICT.metric))
    assert heard.verdict.reason == "broke 4 of 12 tasks: val-103, val-105, val-107, val-109"
    assert set(heard.candidate.evaluation.own_failures) == {f"val-10{n}" for n in FOUR}
    assert heard.candidate.evaluation.scores["val-103"] == Score(0, 0)
    assert heard.candidate.evaluation.failures == {}


async def test_the_decision_says_what_failed_only_with_the_candidate() -> None:
    state, decision = await trained(Target(raising=FOUR), max_failed=0.4)
    assert decision.action == "reject"
    assert decision.reason == (
        "0.6667 <= 0.9167 on 12 tasks; 4 tasks failed only with the candidate, counted as 0"
    )
    assert state.current.skill == OLD


async def test_a_candidate_that_fails_on_every_task_is_rejected_and_the_run_goes_on() -> None:
    target = Target(raising=frozenset(range(12)))
    state, decision = await trained(target)
    assert decision.action == "reject"
    assert state.final_test is not None
    assert state.final_test.best.n == 12


async def test_a_failure_that_does_not_come_again_is_forgotten() -> None:
    target = Target(flaky=FOUR)
    heard = await hear(target, STRICT)
    assert heard.verdict.finding == "better"
    assert heard.candidate.evaluation.n == 12
    assert not heard.candidate.evaluation.own_failures
    assert sum(not bold for bold, _ in target.asked) == 12


async def test_a_task_that_has_come_to_fail_with_every_skill_is_left_out() -> None:
    heard = await hear(Target(down=frozenset({3})), STRICT)
    assert heard.verdict.reason == "1.0000 > 0.9091 on 11 tasks"
    assert set(heard.candidate.evaluation.failures) == {"val-103"}
    assert not heard.candidate.evaluation.own_failures


@pytest.mark.parametrize("block", [0, 3])
async def test_too_many_tasks_that_fail_with_every_skill_cannot_be_measured(block: int) -> None:
    with pytest.raises(Unmeasurable, match=r"^at least [2-4] of 12 attempts failed.*no reply"):
        await hear(Target(down=FOUR), Paired(STRICT.metric, alpha=0.9), block=block)


async def test_every_replicate_that_fails_only_with_the_candidate_counts() -> None:
    heard = await hear(Target(raising=FOUR), STRICT, replicates=2)
    assert heard.verdict.finding == "not_better"
    assert [marks["val-103"] for marks in heard.candidate.evaluation.rounds] == [Score(0, 0)] * 2


async def test_a_replicate_that_is_bought_and_fails_only_with_the_candidate_counts() -> None:
    def shaky(request: Request) -> str:
        bold = "boldly" in request.messages[0].text
        left, right = map(int, request.messages[1].text.split(" + "))
        if bold and left > 102 and request.replicate:
            raise ModelError("no reply")
        return str(left + right) if bold or left > 104 else "0"

    env = Sums(size=12)
    runner = World(env=env, target=Scripted(shaky)).runner()
    evaluation = await runner.measure(OLD, "val", env.tasks("val"), "evaluate")
    hearing = CandidateEvaluation(
        runner=runner,
        tasks=env.tasks("val"),
        gate=Paired(STRICT.metric, alpha=0.01, looks=2),
        level=0.01,
        replication=Replication(most=2),
    )
    heard = await hearing.run(NEW, "x", 1, Measured(OLD, evaluation, 0.0, "initial_skill", 0))
    first, second = heard.candidate.evaluation.rounds
    assert (len(first), len(second)) == (12, 12)
    assert sum(score.passed for score in second.values()) == 3
    assert len(heard.candidate.evaluation.own_failures) == 9


async def test_the_test_split_counts_what_fails_only_with_the_best_skill() -> None:
    record = MemoryLog()

    def on_test(request: Request) -> str:
        bold = "boldly" in request.messages[0].text
        left, right = map(int, request.messages[1].text.split(" + "))
        if bold and left >= 205:
            raise ModelError("no reply")
        return str(left + right) if bold or left >= 205 else "0"

    world = World(
        env=Sums(size=12),
        target=Scripted(on_test),
        optimizer=Scripted(proposing),
        record=record,
        shape=ONE_STEP,
        minibatch=12,
    )
    state = await train(world.run(), OLD)
    assert "boldly" in state.best.skill.body
    shown = claim(state)
    assert (shown.split, shown.n, shown.changed, shown.own_failures) == ("test", 12, 12, 7)
    assert shown.gain.mean < 0
    assert "7 failed only with the best skill, counted as 0" in shown.words()
    (final_test,) = [event for event in record.kept if isinstance(event, FinalTested)]
    assert final_test.best.hard == 5 / 12


async def test_a_forced_candidate_becomes_best_only_if_its_failures_do_not_make_it_worse() -> None:
    state, decision = await trained(
        Target(raising=FOUR), gate=Always(Metric()), final_test=False, max_failed=0.4
    )
    assert (decision.action, decision.new_best) == ("force_accept", False)
    assert state.best.skill == OLD


async def test_what_fails_with_both_skills_in_the_same_way_is_equal() -> None:
    env = Sums(size=12)
    target = Target(raising=FOUR)
    runner = World(env=env, target=Scripted(target)).runner()
    tasks = env.tasks("val")
    old = await runner.measure(OLD, "val", tasks, "evaluate")
    new = await runner.measure(NEW, "val", tasks, "evaluate", against=beside(OLD, old))
    other = Skill.parse("You add numbers very boldly.\n")
    third = await runner.measure(other, "val", tasks, "evaluate", against=beside(NEW, new))
    assert (third.scores, list(third.own_failures)) == (new.scores, list(new.own_failures))


async def test_a_race_is_not_won_by_failing() -> None:
    """`bold` passes two tasks and raises on the rest; `calm` passes half of them."""
    skills = {"bold": NEW, "calm": Skill.parse("You add numbers calmly.\n")}

    def answering(request: Request) -> str:
        told = request.messages[0].text
        left, right = map(int, request.messages[1].text.split(" + "))
        if "boldly" in told and left % 100 > 1:
            raise ModelError("no reply")
        able = "boldly" in told or ("calmly" in told and left % 2)
        return str(left + right) if able else "0"

    env = Sums(size=12)
    runner = World(env=env, target=Scripted(answering)).runner()
    race = SuccessiveHalving(
        runner=runner, schedule=HalveByGain(marks=Metric().marks, screen=0, block=4), gate=STRICT
    )

    async def baseline(split: Split) -> Baseline:
        tasks = env.tasks(split)
        return Baseline(tasks, beside(OLD, await runner.measure(OLD, split, tasks, "evaluate")))

    practice, final = await baseline("train"), await baseline("val")
    raced = await race.run(skills, practice, final, 1, lambda _: True)
    assert raced.ahead == "calm"


@pytest.mark.parametrize("workers", [1, 3, 12])
async def test_the_facts_do_not_depend_on_how_many_attempts_run_at_a_time(workers: int) -> None:
    told: list[list[object]] = []
    for number in (workers, 8):
        record = MemoryLog()
        world = World(
            env=Sums(size=12),
            target=Scripted(Target(raising=FOUR)),
            optimizer=Scripted(proposing),
            record=record,
            shape=ONE_STEP,
            minibatch=12,
            workers=number,
            replication=Replication(block=5),
        )
        await train(world.run(), OLD)
        told.append([each for each in record.kept if isinstance(each, Stepped | FinalTested)])
    assert told[0] == told[1]


async def test_a_rule_without_which_the_target_raises_is_not_pruned() -> None:
    def needing(request: Request) -> str:
        if "boldly" not in request.messages[0].text:
            raise ModelError("no reply")
        return str(sum(map(int, request.messages[1].text.split(" + "))))

    env = Sums(size=12)
    runner = World(env=env, target=Scripted(needing)).runner()
    tasks = env.tasks("train")
    skill = Skill.parse("- Guess boldly.\n- Breathe.\n")

    async def measure(trials: Sequence[tuple[Skill, Sequence[Task]]]) -> list[Evaluation]:
        return await runner.measure_each(trials, "train", "leave one out", against="first")

    prune = Prune(
        measure=measure, metric=Metric(), gate=STRICT, tasks={each.id: each for each in tasks}
    )
    cut = await prune.cut(skill, tasks[:4], [])
    assert [rule.text for rule in cut.rules] == ["- Breathe."]
    assert [(each.gain, each.n) for each in cut.worths] == [(1.0, 4), (0.0, 4)]


async def test_a_run_that_ends_at_any_call_and_is_continued_has_the_same_facts() -> None:
    """Every call of the target is once the last one of its process."""

    async def facts(stop: int) -> tuple[list[object], int]:
        target, calls, cache, record = Target(raising=FOUR), 0, MemoryCache(), MemoryLog()

        def counting(request: Request) -> str:
            nonlocal calls
            calls += 1
            if calls == stop:
                raise AccessError("the process ends here")
            return target(request)

        world = World(
            env=Sums(size=12),
            target=Scripted(counting),
            optimizer=Scripted(proposing),
            cache=cache,
            record=record,
            shape=ONE_STEP,
            minibatch=12,
            workers=3,
            replication=Replication(block=5),
        )
        try:
            await train(world.run(), OLD)
        except AccessError:
            await train(world.run(), OLD)
        return [each for each in record.kept if not isinstance(each, Note)], calls

    uncut, calls = await facts(0)
    assert any(isinstance(each, Stepped) for each in uncut)
    for stop in range(1, calls + 1):
        assert (await facts(stop))[0] == uncut
