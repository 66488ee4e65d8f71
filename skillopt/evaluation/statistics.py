"""How sure a mean or a change is."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, gcd, sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple


class Interval(NamedTuple):
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float


def interval(values: Iterable[float], level: float = 0.95) -> Interval:
    """A confidence interval for the mean of scores within 0 and 1.

    All scores 0 or 1: Wilson's interval. Graded scores: Student's, cut to 0..1. A single graded
    score says nothing about spread, so its interval is everything.
    """
    scores = list(values)
    if not scores:
        return Interval(0.0, 0.0, 1.0)
    if all(score in {0.0, 1.0} for score in scores):
        return _wilson(sum(scores), len(scores), level)
    mean = fmean(scores)
    if len(scores) == 1:
        return Interval(mean, 0.0, 1.0)
    reach = _student(level, len(scores) - 1) * stdev(scores) / sqrt(len(scores))
    return Interval(mean, max(0.0, mean - reach), min(1.0, mean + reach))


def paired(differences: Iterable[float], level: float = 0.95) -> Interval:
    """A confidence interval for a mean change, from the changes of the same tasks (-1 to 1)."""
    changes = list(differences)
    if len(changes) < 2:
        return Interval(fmean(changes) if changes else 0.0, -1.0, 1.0)
    mean = fmean(changes)
    reach = _student(level, len(changes) - 1) * stdev(changes) / sqrt(len(changes))
    return Interval(mean, max(-1.0, mean - reach), min(1.0, mean + reach))


def matched(differences: Iterable[float], level: float = 0.95) -> Interval:
    """As `paired`, for few tasks: that none of them changed does not prove that none ever would.

    Agresti's and Min's interval: two more tasks are imagined, of which half a one gains and half a
    one loses.
    """
    changes = list(differences)
    if not changes:
        return Interval(0.0, -1.0, 1.0)
    n = len(changes) + 2
    centre = fsum(changes) / n
    spread = (fsum(each * each for each in changes) + 1) / n - centre * centre
    reach = NormalDist().inv_cdf((1 + level) / 2) * sqrt(spread / n)
    return Interval(fmean(changes), max(-1.0, centre - reach), min(1.0, centre + reach))


def _wilson(passed: float, n: int, level: float) -> Interval:
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = passed / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if passed == 0 else max(0.0, centre - reach)
    high = 1.0 if passed == n else min(1.0, centre + reach)
    return Interval(share, low, high)


def _student(level: float, freedom: int) -> float:
    """Student's quantile by its expansion around the normal one; a little short below three."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def grid_for(tasks: int) -> int:
    """How finely differences of so many tasks are told apart, as steps between 0 and 1.

    The finest that keeps the exact test affordable; all have many divisors, so that means of a
    few replicates fall on the grid.
    """
    affordable = _BITS // (max(1, tasks) * (tasks + 1))
    return next((steps for steps in (2520, 420, 60, 12) if steps <= affordable), 2)


_BITS = 1 << 26


def sign_flip(differences: Iterable[float], grid: int, *, mid: bool = False) -> float:
    """How often luck alone would bring a sum of changes at least as good: exact, one-sided.

    Under luck alone the sign of every change (-1 to 1) is a fair coin. Changes are rounded to the
    grid, which leaves the test exact. Scores of 0 and 1 make it McNemar's exact test. The answer
    falls, or stays, when any change becomes better.

    `mid` counts sums that are just as good by half (the mid-p value): right on average over what
    might happen, where the exact answer is too careful; not sure in every single case.
    """
    steps = [round(each * grid) for each in differences]
    steps = [each for each in steps if each]
    if not steps:
        return 0.5 if mid else 1.0
    unit = gcd(*steps)
    width = len(steps) + 1
    # A polynomial whose coefficients count the sign patterns with a given sum of gains, held in
    # one big integer, `width` bits for each: the product of (1 + x^size) over all changes.
    counts = 1
    for each in steps:
        counts += counts << (abs(each) // unit * width)
    gained = sum(each for each in steps if each > 0) // unit
    tail = counts >> (gained * width)
    digit = (1 << width) - 1
    # Digits of a number in base b add up to it modulo b - 1.
    as_good, equal = tail % digit, tail & digit
    return (2 * as_good - (equal if mid else 0)) / (1 << width)


STAKES = tuple(share / 20 for share in range(1, 20))


def wealth(differences: Iterable[float]) -> list[float]:
    """What a bettor who starts with 1 owns after each change (-1 to 1), betting on gains.

    The bettor divides the money among fixed stakes, so nothing has to be guessed. If no change is
    expected to be a gain, the chance of ever owning `w` is at most 1 / w (Ville), however often
    and whenever one looks.
    """
    purses = [1.0 / len(STAKES)] * len(STAKES)
    owned: list[float] = []
    for each in differences:
        purses = [purse * (1 + stake * each) for purse, stake in zip(purses, STAKES, strict=True)]
        owned.append(fsum(purses))
    return owned
