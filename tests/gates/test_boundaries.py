"""Rules at the borders of gates: each of them decides which way a close case goes."""

from __future__ import annotations

import pytest

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.gates.compared import Density, Metric, NoRegression, NotWorse, Strict
from skillopt.gates.tested import Paired, Sequential

LOST = Failure("ModelError", "down")


def measured(text: str, *rounds: dict[str, float | None]) -> Measured:
    """A skill with the hard score of each task in each round; None: no score."""
    skill = Skill.parse(text)
    scored = [
        {task: Score(mark, mark) for task, mark in each.items() if mark is not None}
        for each in rounds
    ]
    lost = {task: LOST for task in rounds[0] if not any(task in each for each in scored)}
    return Measured(skill, Evaluation.over(skill.digest, "val", scored, lost), 0.0, "x", 0)


def test_the_room_on_a_task_is_what_the_worst_attempt_of_the_incumbent_leaves() -> None:
    incumbent = measured("old", {"a": 1.0, "b": 0.5}, {"a": 0.25, "b": 0.75})
    gate = Strict(Metric())
    assert gate.room("a", incumbent.evaluation) == pytest.approx(0.75)
    assert gate.room("b", incumbent.evaluation) == pytest.approx(0.5)


def test_a_candidate_is_not_given_up_while_the_bonus_of_its_text_can_carry_it() -> None:
    gate = Strict(Metric(density=Density(0.5, ("must",))))
    incumbent = measured("Write it.", {"a": 0.5, "b": 1.0})
    candidate = measured("You must.", {"a": 0.5})
    assert gate.foresee(candidate, incumbent, ["b"]) is None
    whole = measured("You must.", {"a": 0.5, "b": 1.0})
    assert gate.judge(whole, incumbent).finding == "better"


def test_a_task_that_the_incumbent_has_no_score_for_can_bring_a_candidate_nothing() -> None:
    gate = Strict(Metric(density=Density(0.5, ("must",))))
    incumbent = measured("Write it.", {"a": 1.0, "b": None})
    candidate = measured("You must.", {"a": 0.5})
    verdict = gate.foresee(candidate, incumbent, ["b"])
    assert verdict is not None
    assert verdict.finding == "not_better"


def test_a_difference_that_only_rounding_makes_is_a_tie() -> None:
    incumbent = measured("old", {"a": 0.3, "b": 0.3, "c": 0.3})
    candidate = measured("new", {"a": 0.1, "b": 0.2, "c": 0.6000000000000001})
    ours, theirs = Metric()(candidate.evaluation), Metric()(incumbent.evaluation)
    assert ours > theirs
    assert Strict(Metric()).judge(candidate, incumbent).finding == "not_better"
    assert Strict(Metric(), ties=True).judge(incumbent, candidate).finding == "better"


@pytest.mark.parametrize(
    ("must_pass", "max_broken"),
    [({"a"}, 1.0), (set[str](), 0.0)],
    ids=["one that must pass", "more than may be"],
)
def test_either_kind_of_broken_task_ends_an_evaluation_early(
    must_pass: set[str], max_broken: float
) -> None:
    gate = NoRegression(metric=Metric(), must_pass=frozenset(must_pass), max_broken=max_broken)
    incumbent = measured("old", {"a": 1.0, "b": 0.0, "c": 0.0})
    verdict = gate.foresee(measured("new", {"a": 0.0}), incumbent, ["b", "c"])
    assert verdict is not None
    assert verdict.reason.startswith("broke a, after 1 of 3 tasks")


def test_a_gate_without_a_test_needs_one_win_or_none_where_a_tie_is_enough() -> None:
    metric = Metric()
    gates = [
        Strict(metric),
        NotWorse(metric),
        NoRegression(metric),
        NoRegression(metric, ties=True),
    ]
    assert [gate.fewest_wins(0.05) for gate in gates] == [1, 0, 1, 0]


def test_at_level_0_no_evidence_is_enough_and_the_bar_is_said_to_be_infinite() -> None:
    candidate = measured("b", {"t1": 1})
    incumbent = measured("a", {"t1": 0})
    found = Sequential(Metric(), alpha=0.05).judge(candidate, incumbent, level=0.0)
    assert found == GateVerdict("inconclusive", "1 better, 0 worse of 1, e-value 1.5 < infinity")
    found = Paired(Metric(), alpha=0.05).judge(candidate, incumbent, level=0.0)
    assert found == GateVerdict("inconclusive", "1 better, 0 worse of 1, p 0.5 > 0")
