from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.analysis.report import lift
from skillopt.core.events import GateVerdict, Measured
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.gates.compared import Always, Density, Metric, Strict
from skillopt.gates.statistics import interval, paired

SCORES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9)


def measured(gate: Strict, scores: dict[str, Score]) -> Measured:
    skill = Skill.parse("a")
    evaluation = Evaluation(skill.digest, "val", scores)
    return Measured(skill, evaluation, gate.value(skill, evaluation), "x", 0)


def is_better(gate: Strict, candidate: Measured, incumbent: Measured) -> bool:
    return gate.judge(candidate, incumbent).finding == "better"


def marks(*values: float) -> dict[str, Score]:
    return {f"t{index}": Score(value, value) for index, value in enumerate(values)}


def test_a_tie_is_not_better_and_a_point_more_is() -> None:
    gate = Strict(Metric())
    old = measured(gate, marks(1, 0, 0))
    assert gate.judge(measured(gate, marks(0, 1, 0)), old) == GateVerdict(
        "not_better", "0.3333 <= 0.3333 on 3 tasks"
    )
    assert is_better(gate, measured(gate, marks(1, 1, 0)), old)


@pytest.mark.parametrize(
    ("change", "strictly", "tied"),
    [(1e-13, False, True), (-1e-13, False, True), (1e-11, True, True), (-1e-11, False, False)],
)
def test_means_that_differ_by_rounding_alone_are_a_tie(
    change: float, strictly: bool, tied: bool
) -> None:
    strict, lenient = Strict(Metric()), Strict(Metric(), ties=True)
    old, new = measured(strict, marks(0.3)), measured(strict, marks(0.3 + change))
    assert is_better(strict, new, old) is strictly
    assert is_better(lenient, new, old) is tied


@pytest.mark.parametrize(("weight", "better"), [(0.0, False), (0.5, True), (1.0, True)])
def test_the_metric_weighs_hard_and_soft(weight: float, better: bool) -> None:
    gate = Strict(Metric(weight))
    old = measured(gate, {"a": Score(1, 0.2)})
    new = measured(gate, {"a": Score(1, 0.9)})
    assert is_better(gate, new, old) is better


def test_only_tasks_that_both_have_scored_are_compared() -> None:
    gate = Strict(Metric())
    old = measured(gate, marks(0, 0, 1))
    new = measured(gate, {"t0": Score(1, 1), "t1": Score(0, 0)})
    verdict = gate.judge(new, old)
    assert verdict.finding == "better"
    assert "2 tasks" in verdict.reason


@pytest.mark.parametrize("ties", [False, True])
def test_nothing_is_better_where_nothing_can_be_compared(ties: bool) -> None:
    gate = Strict(Metric(0.0, Density(0.2, ("new",))), ties=ties)
    old, new = (
        Measured(Skill.parse(text), Evaluation(text, "val", {}), 0.0, "x", 0)
        for text in ("old", "new")
    )
    assert gate.judge(new, old).finding == "not_better"


def test_a_score_of_zero_is_a_score() -> None:
    evaluation = Evaluation("d", "val", marks(0, 0), {"f": Failure("ModelError", "down")})
    assert (evaluation.n, evaluation.hard) == (2, 0.0)


def test_always_is_forced_but_still_compares() -> None:
    gate = Always(Metric())
    assert gate.forced
    assert not is_better(gate, measured(gate, marks(0)), measured(gate, marks(1)))


@given(SCORES)
def test_nothing_is_better_than_itself(pairs: list[tuple[float, float]]) -> None:
    scores = {f"t{index}": Score(*pair) for index, pair in enumerate(pairs)}
    for weight in (0.0, 0.5, 1.0):
        gate = Strict(Metric(weight))
        assert not is_better(gate, measured(gate, scores), measured(gate, scores))


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_lies_outside_0_to_1_is_no_score(value: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Score(value, 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Score(0, value)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_holds_its_mean_and_stays_within_0_and_1(values: list[float]) -> None:
    mean, low, high = interval(values)
    assert 0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1


def test_intervals_agree_with_published_values() -> None:
    wilson = interval([1.0] * 8 + [0.0] * 2)
    assert (round(wilson.low, 4), round(wilson.high, 4)) == (0.4902, 0.9433)
    # mean 0.5, sd 0.1581, n 5, t(4) = 2.776
    student = interval([0.3, 0.4, 0.5, 0.6, 0.7])
    assert round(student.high - student.mean, 3) == pytest.approx(0.196, abs=0.002)
    assert interval([]) == (0.0, 0.0, 1.0)
    assert interval([0.4]) == (0.4, 0.0, 1.0)


def test_a_change_is_judged_by_the_tasks_that_both_have_scored() -> None:
    old = Evaluation("a", "test", marks(0, 0, 1, 0))
    new = Evaluation("b", "test", {**marks(1, 1, 1), "other": Score(1, 1)})
    gain = lift(old, new)
    assert gain.mean == pytest.approx(2 / 3)
    assert -1 < gain.low < gain.mean < gain.high < 1
    same = lift(old, old)
    assert same.low == -same.high < same.mean == 0.0


def test_one_change_says_nothing_about_others() -> None:
    assert paired([1.0]) == (1.0, -1.0, 1.0)
    assert paired([]) == (0.0, -1.0, 1.0)
