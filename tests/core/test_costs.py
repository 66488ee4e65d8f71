"""Estimated numbers are ranges that add up."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.costs import MANY, PartCost, Range, StepSize, cost_of
from skillopt.core.task import Task

NUMBERS = st.integers(0, 50)


def within(low: int, more: int, share: float) -> Range:
    return Range(low, low + more, low + more * share)


RANGES = st.builds(within, NUMBERS, NUMBERS, st.sampled_from([0, 0.25, 0.5, 1]))


def three(of: Range) -> tuple[float, float, float]:
    return of.low, of.expected, of.high


@given(RANGES, RANGES)
def test_sums_and_products_are_those_of_their_bounds_and_of_what_is_expected(
    one: Range, other: Range
) -> None:
    both = list(zip(three(one), three(other), strict=True))
    assert three(one + other) == tuple(mine + theirs for mine, theirs in both)
    assert three(one * other) == tuple(mine * theirs for mine, theirs in both)


def test_the_middle_is_expected_unless_something_within_the_bounds_is_assumed() -> None:
    assumed = [Range(2, 6, each).expected for each in (None, 3, 0, 9)]
    assert assumed == [4, 3, 2, 6]


@given(RANGES, st.floats(1, 5))
def test_what_is_likely_lies_around_what_is_expected_and_within_the_bounds(
    numbers: Range, factor: float
) -> None:
    likely = numbers.likely(factor)
    assert numbers.low <= likely.low <= likely.expected <= likely.high <= numbers.high
    assert likely.expected == numbers.expected
    assert likely.low in {numbers.low, numbers.expected / factor}
    assert likely.high in {numbers.high, numbers.expected * factor}


def test_what_may_not_happen_takes_nothing_at_least_and_as_much_as_before_at_most() -> None:
    assert three(Range(2, 6).perhaps()) == (0, 2, 6)
    assert three(Range(2, 6).perhaps(0.25)) == (0, 1, 6)
    cost = PartCost("reflect", Range(2, 6), "analyst", shown=5)
    assert cost.perhaps(0.25) == PartCost("reflect", Range(0, 6), "analyst", shown=5)
    assert three(cost.perhaps().calls) == (0, 2, 6)
    assert cost.times(3) == PartCost("reflect", Range(6, 18), "analyst", shown=5)
    assert three(cost.perhaps(0.25).times(3).calls) == (0, 3, 18)


def size(budget: int | None = None, evidence_tokens: float = 0) -> StepSize:
    batch = [Task("a", "sum", {}), Task("b", "sum", {})]
    return StepSize(
        batches=[batch, batch[:1]],
        budget=budget,
        attempt_tokens=10,
        evidence_tokens=evidence_tokens,
    )


def test_attempts_in_one_question_are_shown_up_to_the_limit_of_evidence() -> None:
    assert size().shown(7) == 70
    assert [size(evidence_tokens=50).shown(number) for number in (4, 5, 7)] == [40, 50, 50]


def test_a_step_without_a_budget_is_allowed_as_many_proposals_as_come_as_a_rule() -> None:
    assert (size().allowed, size(budget=2).allowed, size(budget=0).allowed) == (MANY, 2, 0)
    assert size().tasks == 3


class Telling:
    def cost(self, size: StepSize) -> Iterable[PartCost]:
        return [PartCost("reflect", Range(0, size.tasks))]


def test_a_part_that_tells_no_cost_asks_nothing() -> None:
    assert list(cost_of(object(), size())) == []
    assert list(cost_of(Telling(), size())) == [PartCost("reflect", Range(0, 3))]
