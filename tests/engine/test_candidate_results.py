"""How the evaluation of a candidate ends, and what is decided then, compared whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from support import Sums, World

from skillopt.core.chat import Request
from skillopt.core.events import Decision, GateVerdict, Measured
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.engine.candidate_evaluation import (
    CandidateEvaluation,
    CandidateResult,
    Replication,
    out_of_reach,
)
from skillopt.errors import ModelError
from skillopt.gates.compared import Always, Density, Metric, Strict
from skillopt.gates.tested import Paired, Sequential
from skillopt.model.scripted import Scripted

TASKS = Sums(size=8).tasks("val")
NAMES = [task.id for task in TASKS]
OLD, NEW, BEST = Skill.parse("old\n"), Skill.parse("new must\n"), Skill.parse("best\n")
NOTHING: Mapping[str, str] = {}
STRICT = Strict(Metric(density=Density(0.01)))


def marks(right: str, tasks: int = 8) -> dict[str, Score]:
    """Scores of the first tasks, such as `1100`."""
    return {NAMES[n]: Score(int(each), int(each)) for n, each in enumerate(right[:tasks])}


def measured(skill: Skill, right: str, gate: CompleteGate = STRICT) -> Measured:
    evaluation = Evaluation(skill.digest, "val", marks(right))
    return Measured(skill, evaluation, gate.value(skill, evaluation), "earlier", 1)


def target(*rounds: Mapping[str, str]) -> Callable[[Request], str]:
    """By replicate and skill: on which tasks it is right (1), wrong (0) or fails (x)."""

    def answer(request: Request) -> str:
        name = request.messages[0].text.split("\n")[-2].split()[0]
        left, right = map(int, request.messages[1].text.split(" + "))
        course = rounds[min(request.replicate, len(rounds) - 1)] if rounds else NOTHING
        found = course.get(name, "00000000")[left - 100]
        if found == "x":
            raise ModelError("down")
        return str(left + right) if found == "1" else "0"

    return answer


def evaluation(
    *rounds: Mapping[str, str],
    gate: CompleteGate = STRICT,
    replication: Replication | None = None,
    level: float = 0.0,
) -> CandidateEvaluation:
    world = World(env=Sums(size=8), target=Scripted(target(*rounds)), workers=1)
    return CandidateEvaluation(
        runner=world.runner(),
        tasks=TASKS,
        gate=gate,
        level=level,
        replication=replication or Replication(),
    )


async def test_a_candidate_that_is_measured_to_the_end_has_every_task_in_order() -> None:
    incumbent = measured(OLD, "00001111")
    result = await evaluation({"new": "11110000"}).run(NEW, "step_0002", 2, incumbent)
    found = Evaluation(NEW.digest, "val", marks("11110000"))
    value = 0.5 + 0.01 / 2
    assert result == CandidateResult(
        Measured(NEW, found, value, "step_0002", 2),
        incumbent,
        GateVerdict("better", "0.5050 > 0.5000 on 8 tasks"),
    )
    assert list(result.candidate.evaluation.scores) == NAMES


async def test_a_candidate_that_is_given_up_is_told_with_what_was_spared() -> None:
    """Where the old skill failed comes first, and there nothing is gained."""
    incumbent = measured(OLD, "11100111")
    subject = evaluation(replication=Replication(replicates=2, block=2))
    result = await subject.run(NEW, "step_0002", 2, incumbent)
    found = result.candidate.evaluation
    met = [*NAMES[:2], *NAMES[3:5]]
    assert {task: score.hard for task, score in found.scores.items()} == dict.fromkeys(met, 0.0)
    assert len(found.rounds) == 2
    assert result == CandidateResult(
        Measured(NEW, found, 4 / 8 + 0.01 / 2, "step_0002", 2),
        incumbent,
        GateVerdict("not_better", "at most 0.5050 <= 0.7500, after 4 of 8 tasks"),
        saved=8,
    )


async def test_a_verdict_without_an_attempt_grants_full_marks_on_all_tasks() -> None:
    incumbent, verdict = measured(OLD, "11100111"), GateVerdict("inconclusive", "why")
    subject = evaluation(replication=Replication(replicates=2))
    assert subject.spare(NEW, "step_0002", 2, incumbent, verdict) == CandidateResult(
        Measured(NEW, Evaluation(NEW.digest, "val", {}), 1 + 0.01 / 2, "step_0002", 2),
        incumbent,
        verdict,
        saved=16,
    )


def concluded(candidate: Measured, incumbent: Measured, **changes: object) -> CandidateResult:
    return replace(
        CandidateResult(candidate, incumbent, GateVerdict("better", "why"), saved=3), **changes
    )


@pytest.mark.parametrize(
    ("gate", "finding", "right", "action", "new_best"),
    [
        (STRICT, "better", "11110000", "accept_new_best", True),
        (STRICT, "better", "11000000", "accept", False),
        (STRICT, "not_better", "11110000", "reject", False),
        (STRICT, "inconclusive", "11110000", "reject", False),
        (Always(Metric()), "better", "11110000", "force_accept", True),
        (Always(Metric()), "not_better", "11110000", "force_accept", True),
        (Always(Metric()), "not_better", "10000000", "force_accept", False),
    ],
)
async def test_what_is_accepted_is_best_if_the_gate_finds_it_better_than_the_best(
    gate: CompleteGate, finding: str, right: str, action: str, *, new_best: bool
) -> None:
    current, best = measured(OLD, "10000000"), measured(BEST, "11100000")
    candidate = measured(NEW, right)
    verdict = replace(GateVerdict("better", "why"), finding=finding)
    subject = evaluation(gate=gate)
    decision = await subject.conclude(concluded(candidate, current, verdict=verdict), current, best)
    assert decision == replace(
        Decision(candidate, "reject", "why", new_best=new_best, saved=3),
        action=action,
        inconclusive=finding == "inconclusive",
    )


async def test_a_current_skill_that_was_measured_again_is_part_of_the_decision() -> None:
    current, candidate = measured(OLD, "10000000"), measured(NEW, "11100000")
    again = replace(current, value=0.25)
    decision = await evaluation().conclude(concluded(candidate, again), current, current)
    assert decision == Decision(
        candidate, "accept_new_best", "why", new_best=True, saved=3, incumbent=again
    )


@pytest.mark.parametrize(("tasks", "told"), [("x", "1 task"), ("xx", "2 tasks")])
async def test_what_fails_only_with_the_candidate_is_told_with_the_decision(
    tasks: str, told: str
) -> None:
    current, candidate = measured(OLD, "10000000"), measured(NEW, "11100000")
    own = dict.fromkeys(NAMES[: len(tasks)], Failure("ModelError", "down"))
    failing = replace(candidate, evaluation=replace(candidate.evaluation, own_failures=own))
    decision = await evaluation().conclude(concluded(failing, current), current, current)
    assert decision.reason == f"why; {told} failed only with the candidate, counted as 0"


async def test_a_candidate_that_fails_where_the_best_skill_does_not_is_no_new_best() -> None:
    """Without a score for them it would look better than the best one."""
    current, best = measured(OLD, "10000000"), measured(BEST, "11111000")
    down = {NAMES[4]: Failure("ModelError", "down")}
    scores = marks("11110000")
    without = {task: score for task, score in scores.items() if task not in down}
    candidate = Measured(NEW, Evaluation(NEW.digest, "val", without, down), 1.0, "x", 2)
    subject = evaluation({"new": "1111x000", "best": "11111000"})
    decision = await subject.conclude(concluded(candidate, current), current, best)
    assert decision.candidate == Measured(
        NEW, Evaluation(NEW.digest, "val", scores, own_failures=down), 0.5 + 0.01 / 2, "x", 2
    )
    assert list(decision.candidate.evaluation.scores) == NAMES
    assert (decision.action, decision.new_best) == ("accept", False)


async def test_replicates_are_bought_for_both_sides_where_they_differ_until_the_gate_is_sure() -> (
    None
):
    gate = Sequential(Metric(), alpha=0.05, rounds=3)
    incumbent = measured(OLD, "00000011", gate)
    subject = evaluation(
        {"new": "11111111"},
        {"new": "11111111", "old": "00000011"},
        gate=gate,
        replication=Replication(most=3, changed_only=True),
        level=0.02,
    )
    result = await subject.run(NEW, "step_0002", 2, incumbent)
    changed = marks("111111", 6)
    assert result.verdict.finding == "better"
    assert result.candidate == Measured(
        NEW,
        Evaluation.over(NEW.digest, "val", [marks("11111111"), changed], {}),
        1.0,
        "step_0002",
        2,
    )
    lost = {task: Score(0, 0) for task in changed}
    assert result.incumbent == replace(
        incumbent, evaluation=Evaluation.over(OLD.digest, "val", [marks("00000011"), lost], {})
    )
    assert result.saved == 0


def test_what_no_candidate_could_reach_is_told_with_the_best_that_can_happen() -> None:
    gate = Paired(Metric(), alpha=0.05)
    nearly = measured(OLD, "11111100", gate)
    verdict = out_of_reach(gate, Replication(), NAMES, nearly, 0.05)
    assert verdict == GateVerdict(
        "inconclusive",
        "no candidate can be accepted: at best 2 better, 0 worse of 8, p 0.25 > 0.05",
    )
    full = measured(OLD, "11111111", gate)
    verdict = out_of_reach(gate, Replication(), NAMES, full, 0.05)
    assert verdict == GateVerdict(
        "not_better", "no candidate can be accepted: at best 0 better, 0 worse of 8, p 1"
    )
    assert out_of_reach(gate, Replication(), NAMES, measured(OLD, "11100000", gate), 0.05) is None
    more = Replication(most=2)
    again = out_of_reach(gate, more, NAMES, nearly, 0.05)
    assert again is None or again.finding != "better"
    assert out_of_reach(STRICT, Replication(), NAMES, full, 0.0) is None


@pytest.mark.parametrize(("level", "action"), [(0.05, "accept"), (0.2, "accept_new_best")])
async def test_the_best_skill_is_beaten_at_the_level_of_the_decision(
    level: float, action: str
) -> None:
    gate = Paired(Metric(), alpha=0.2)
    current, best = measured(OLD, "00000000", gate), measured(BEST, "00000011", gate)
    candidate = measured(NEW, "11111100", gate)
    subject = evaluation(gate=gate, level=level)
    decision = await subject.conclude(concluded(candidate, current), current, best)
    assert decision == replace(
        Decision(candidate, "accept", "why", new_best=action == "accept_new_best", saved=3),
        action=action,
    )
