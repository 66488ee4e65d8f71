"""Promise: intervals and tests are what the textbooks say, for every number, size and scale."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from math import comb, sqrt
from statistics import fmean, stdev

import pytest

from skillopt.gates.statistics import interval, matched, paired, sign_flip

STUDENT = [
    (1, 3.077683537175, 12.70620473617, 63.65674116287),
    (2, 1.885618083164, 4.302652729749, 9.924843200918),
    (3, 1.637744353696, 3.182446305284, 5.840909309733),
    (4, 1.533206274059, 2.776445105198, 4.604094871350),
    (5, 1.475884048824, 2.570581835636, 4.032142983555),
    (7, 1.414923927651, 2.364624251593, 3.499483297351),
    (10, 1.372183641110, 2.228138851986, 3.169272672612),
    (19, 1.327728209027, 2.093024054408, 2.860934606450),
    (30, 1.310415025391, 2.042272456301, 2.749995653567),
    (39, 1.303638588621, 2.022690920037, 2.707913183524),
    (41, 1.302543358954, 2.019540970441, 2.701181303579),
    (100, 1.290074761347, 1.983971518524, 2.625890521438),
    (101, 1.289989808568, 1.983731002956, 2.625385964668),
    (500, 1.283247020710, 1.964719837467, 2.585697835142),
    (5000, 1.281720905336, 1.960438551707, 2.576812966556),
]
"""Degrees of freedom and the two-sided quantiles at 80, 95 and 99 %, by the incomplete beta
function of mpmath."""


def spread_of(n: int) -> list[float]:
    """So many scores around one half that are no 0 and no 1."""
    return [0.5 + 0.02 * ((-1) ** k) * (1 + k % 3) for k in range(n)]


@pytest.mark.parametrize(("freedom", "at_80", "at_95", "at_99"), STUDENT)
def test_students_interval_is_right_for_every_number_of_items(
    freedom: int, at_80: float, at_95: float, at_99: float
) -> None:
    scores = spread_of(freedom + 1)
    error = stdev(scores) / sqrt(len(scores))
    for level, quantile in ((0.8, at_80), (0.95, at_95), (0.99, at_99)):
        found = paired([each - 0.5 for each in scores], level)
        expected = min(1.0, found.mean + quantile * error)
        assert found.high == pytest.approx(expected, rel=1e-9)
    assert interval(scores).high == pytest.approx(min(1.0, fmean(scores) + at_95 * error), rel=1e-9)


def exact(changes: Sequence[int], more: int = 0) -> float:
    """The share of sign patterns that bring as much, or gain so much more: all are counted."""
    whole = sum(map(abs, changes))
    chances = [0.0] * (whole + 1)
    chances[0] = 1.0
    for size in map(abs, changes):
        moved = [0.0] * size + chances[: whole + 1 - size]
        chances = [(old + new) / 2 for old, new in zip(chances, moved, strict=True)]
    gained = sum(each for each in changes if each > 0)
    return sum(chances[gained + more :])


@pytest.mark.parametrize("n", [30, 82, 200, 400])
@pytest.mark.parametrize("drift", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("scale", [1.0, 0.1, 0.05])
def test_flipping_signs_agrees_with_counting_for_every_number_size_and_scale(
    n: int, drift: float, scale: float
) -> None:
    rng = random.Random(f"{n} {drift}")
    steps = [max(-20, min(20, round(rng.gauss(drift, 8)))) for _ in range(n)]
    found = sign_flip([scale * each / 20 for each in steps])
    # Rounding may tell sums apart that are just as good, so those may count or not.
    assert 0.98 * exact(steps, more=1) <= found <= 1.02 * exact(steps)


@pytest.mark.parametrize("gains", [2400, 2500, 2560, 2620])
def test_of_five_thousand_answers_flipping_signs_is_mcnemars_test(gains: int) -> None:
    n = 5000
    expected = sum(comb(n, k) for k in range(gains, n + 1)) / 2**n
    changes = [1.0] * gains + [-1.0] * (n - gains)
    assert sign_flip(changes) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("n", [20, 200, 1000, 5000])
@pytest.mark.parametrize("gain", [0.2, 0.01, 1e-4])
def test_a_gain_on_every_task_is_seen_however_many_tasks_and_however_small(
    n: int, gain: float
) -> None:
    rng = random.Random(n)
    even = sign_flip([gain] * n)
    uneven = sign_flip([gain * rng.uniform(0.5, 1) for _ in range(n)])
    assert even == pytest.approx(0.5**n, abs=1e-9)
    assert uneven < 1e-5


@pytest.mark.parametrize(("n", "trials"), [(60, 400), (600, 400)])
def test_graded_luck_passes_the_test_as_often_as_stated(n: int, trials: int) -> None:
    rng = random.Random(n)
    level, found = 0.1, 0
    for _ in range(trials):
        changes = [rng.uniform(-0.1, 0.1) for _ in range(n)]
        found += sign_flip(changes) <= level
    # At exactly 10 %, 400 trials lie within 26 and 55 in 98 % of all cases.
    assert 26 <= found <= 55


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01])
def test_graded_gains_are_seen_at_every_scale_alike(scale: float) -> None:
    """Power: a mean gain of half a standard deviation on 400 tasks is never missed."""
    rng = random.Random(7)
    for _ in range(20):
        changes = [scale * max(-1, min(1, rng.gauss(0.1, 0.2))) for _ in range(400)]
        assert sign_flip(changes) < 1e-6


def test_a_few_large_changes_among_many_small_ones_are_counted() -> None:
    """Where the large ones decide, the sum is far from normal."""
    steps = [60] * 5 + [-60] + [1] * 200 + [-1] * 194
    found = sign_flip([each / 60 for each in steps])
    assert 0.98 * exact(steps, more=1) <= found <= 1.02 * exact(steps)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_large_changes_that_take_too_long_to_count_exactly_are_counted_on_a_coarser_grid(
    lost: int,
) -> None:
    rng = random.Random(lost)
    large = [rng.randint(2000, 3001) for _ in range(6)]
    small = [rng.choice((-1, 1)) * rng.randint(1, 9) for _ in range(300)]
    steps = [*(-each for each in large[:lost]), *large[lost:], *small]
    found = sign_flip([each / 3001 for each in steps])
    assert found == pytest.approx(exact(steps), rel=0.05)


def test_twenty_small_gains_of_twenty_are_a_sure_gain() -> None:
    found = matched([0.08] * 20)
    assert 0.05 < found.low < found.mean < found.high < 0.1
    rng = random.Random(0)
    uneven = matched([0.08 + rng.uniform(-0.05, 0.05) for _ in range(20)])
    assert 0.04 < uneven.low < uneven.high < 0.12


def test_no_item_says_nothing_and_a_single_graded_one_says_nothing_about_others() -> None:
    assert interval([]) == (0, 0, 1)
    assert paired([]) == matched([]) == (0, -1, 1)
    assert interval([0.25]) == (0.25, 0, 1)
    assert paired([0.25]) == (0.25, -1, 1)


def test_the_interval_of_small_changes_is_that_of_large_ones_made_smaller() -> None:
    changes = [0.9, -0.3, 0.6, 0.6, 0.0, 0.3, 0.9, -0.6]
    large, small = matched(changes), matched([each / 10 for each in changes])
    assert small.low == pytest.approx(large.low / 10)
    assert small.high == pytest.approx(large.high / 10)


def _normal(rng: random.Random) -> float:
    return rng.gauss(0.08, 0.05)


def _thirds(rng: random.Random) -> float:
    """Three attempts each, right in 60 and in 50 % of them."""
    new, old = (sum(rng.random() < share for _ in range(3)) for share in (0.6, 0.5))
    return (new - old) / 3


def _even(rng: random.Random) -> float:
    return rng.uniform(-0.5, 0.7)


@pytest.mark.parametrize("n", [8, 20, 100])
@pytest.mark.parametrize(("draw", "truth"), [(_normal, 0.08), (_thirds, 0.1), (_even, 0.1)])
def test_the_interval_of_graded_changes_holds_the_truth_and_is_little_wider_than_students(
    n: int, draw: Callable[[random.Random], float], truth: float
) -> None:
    rng = random.Random(n)
    held, width, students = 0, 0.0, 0.0
    for _ in range(600):
        changes = [draw(rng) for _ in range(n)]
        found, plain = matched(changes), paired(changes)
        held += found.low <= truth <= found.high
        width += found.high - found.low
        students += plain.high - plain.low
    # 95 % of 600 are 570; fewer than 557 would be seen in 1 % of all cases.
    assert held >= 557
    assert width < 1.4 * students


def test_the_patterns_of_signs_are_what_is_counted() -> None:
    """The reference of these tests against every pattern, one by one."""
    for steps in ([3, -1, 2], [1, 1, 1, -5], [4, 4, -2, 1, 7]):
        patterns = list(product((-1, 1), repeat=len(steps)))
        sums = [sum(s * abs(x) for s, x in zip(signs, steps, strict=True)) for signs in patterns]
        as_good = sum(each >= sum(steps) for each in sums)
        assert exact(steps) == pytest.approx(as_good / len(patterns))


def test_an_interval_of_changes_ends_where_no_change_can_be_larger() -> None:
    assert paired([-1.0, 0.75], 0.99) == (-0.125, -1, 1)
    assert matched([-1.0], 0.9999) == (-1, -1, 1)
    assert matched([1.0], 0.9999) == (1, -1, 1)
    assert interval([0.0, 0.75], 0.99) == (0.375, 0, 1)
