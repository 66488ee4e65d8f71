from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.analysis.pruning import worth
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.rules import Rule, Worth
from skillopt.gates.compared import Metric
from skillopt.gates.statistics import matched

RULE = Rule("SKILL.md", 1, "- Be brief.")


def measured(*marks: float | None) -> Evaluation:
    scores = {str(at): Score(mark, 0.5) for at, mark in enumerate(marks) if mark is not None}
    lost = {str(at): Failure("x", "y") for at, mark in enumerate(marks) if mark is None}
    return Evaluation("s", "val", scores, lost)


def valued(whole: Sequence[float | None], less: Sequence[float | None]) -> Worth:
    return worth(RULE, measured(*whole), measured(*less), Metric())


def test_a_rule_is_worth_what_is_lost_without_it() -> None:
    found = valued([1] * 20, [0] * 12 + [1] * 8)
    assert found.gain == pytest.approx(0.6)
    assert (found.n, found.changed, found.verdict) == (20, 12, "useful")
    found = valued([0] * 12 + [1] * 8, [1] * 20)
    assert found.gain == pytest.approx(-0.6)
    assert found.verdict == "harmful"


def test_a_rule_that_changes_nothing_has_no_effect_only_if_enough_tasks_say_so() -> None:
    few, many = valued([1] * 5, [1] * 5), valued([1] * 500, [1] * 500)
    assert few.gain == many.gain == 0
    assert (few.verdict, many.verdict) == ("unclear", "no effect")
    assert few.high > 0.2
    assert 0 < many.high < 0.01
    assert [valued([1] * n, [1] * n).verdict for n in (37, 38)] == ["unclear", "no effect"]


def test_a_few_changes_are_unclear() -> None:
    assert valued([1, 1, 1, 0], [1, 1, 0, 0]).verdict == "unclear"


def test_attempts_without_a_score_are_no_evidence() -> None:
    found = valued([1, None, 1], [0, 0, None])
    assert (found.gain, found.n) == (1, 1)


def test_without_any_evidence_everything_is_possible() -> None:
    found = valued([None], [None])
    assert (found.low, found.high, found.verdict) == (-1, 1, "unclear")


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_an_interval_of_few_changes_holds_their_mean_and_is_never_a_point(
    changes: list[float],
) -> None:
    found = matched(changes)
    assert -1 <= found.low <= found.mean <= found.high <= 1
    assert found.low < found.high
    mirrored = matched([-each for each in changes])
    assert mirrored.high == pytest.approx(-found.low)
