"""Confidence intervals and tests."""

from __future__ import annotations

from collections.abc import Iterable
from math import atan, comb, copysign, erfc, exp, fsum, gcd, log, log1p, pi, sqrt, tan, tanh
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
    one loses, each by as much as the largest change that was seen (by 1 if none was). Scores of 0
    and 1 make it their interval for matched pairs; graded scores take Student's quantile.
    """
    changes = list(differences)
    if not changes:
        return Interval(0.0, -1.0, 1.0)
    largest = max(map(abs, changes)) or 1.0
    scaled = [change / largest for change in changes]
    graded = any(abs(change) not in {0.0, 1.0} for change in scaled)
    n = len(changes) + 2
    centre = fsum(scaled) / n
    spread = (fsum(change * change for change in scaled) + 1) / n - centre * centre
    if graded:
        quantile = _student(level, n - 1) * sqrt(n / (n - 1))
    else:
        quantile = NormalDist().inv_cdf((1 + level) / 2)
    reach = quantile * sqrt(max(0.0, spread) / n)
    low, high = (largest * end for end in (centre - reach, centre + reach))
    return Interval(fmean(changes), max(-1.0, low), min(1.0, high))


def _wilson(passed: float, n: int, level: float) -> Interval:
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = passed / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if passed == 0 else max(0.0, centre - reach)
    high = 1.0 if passed == n else min(1.0, centre + reach)
    return Interval(share, low, high)


def _student(level: float, freedom: int) -> float:
    """Student's quantile: by its distribution where that is a short sum, else by expansion."""
    if freedom > _EXPANDED:
        z = NormalDist().inv_cdf((1 + level) / 2)
        terms = (
            z,
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return sum(term / freedom**power for power, term in enumerate(terms))
    # Within a half turn, as an angle: tan(angle) = t / sqrt(freedom).
    low, high = 0.0, pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _within(angle, freedom) < level else (low, angle)
    return sqrt(freedom) * tan(low)


_EXPANDED = 100
"""Degrees of freedom above which the expansion is right to nine digits."""


def _within(angle: float, freedom: int) -> float:
    """The chance that Student's t lies within plus and minus `sqrt(freedom) * tan(angle)`."""
    slope = tan(angle)
    square = 1 / (1 + slope * slope)
    sine = slope * sqrt(square)
    odd = freedom % 2
    term, total = (sqrt(square), 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= square * k / (k + 1)
    if odd:
        return 2 / pi * (atan(slope) + sine * total)
    return sine * total


GRID = 12600
"""Steps between 0 and 1 that differences are told apart by.

It has many divisors, so that hundredths and means of a few replicates fall on the grid.
"""
_BITS = 1 << 23
"""What counting may take: some hundredths of a second."""
_MANY = 30
"""Changes of about one size from which on the approximation is good."""


def sign_flip(differences: Iterable[float], *, mid: bool = False) -> float:
    """How often luck alone would bring a sum of changes at least as good, one-sided.

    Under luck alone the sign of every change (-1 to 1) is a fair coin. Scores of 0 and 1 make it
    McNemar's exact test. Exact where the sign patterns can be counted: changes are then rounded to
    a grid, which leaves the test exact. Where that takes too long, by a saddlepoint approximation
    whose relative error is about 1 % at most. The answer falls, or stays, when any change becomes
    better, up to that error.

    `mid` counts sums that are just as good by half (the mid-p value): right on average over what
    might happen, where the exact answer is too careful; not sure in every single case.
    """
    changes = [difference for difference in differences if difference]
    if len({abs(change) for change in changes}) < 2:
        return _coins(sum(change > 0 for change in changes), len(changes), mid=mid)
    steps = _rounded(changes, GRID)
    if _cost(steps) <= _BITS:
        return _counted(steps, mid=mid)
    if _evenly(changes) >= _MANY:
        # What is as good lies on the same sum, or on one that is two units away.
        return _approximate(changes, 0.0 if mid else gcd(*steps) / GRID)
    affordable = int(_BITS / (len(changes) * fsum(map(abs, changes))))
    return _counted(_rounded(changes, affordable), mid=mid)


def _coins(gains: int, n: int, *, mid: bool) -> float:
    """The chance of so many heads or more."""
    term, total = comb(n, gains), 0
    equal = term
    for heads in range(gains, n + 1):
        total += term
        term = term * (n - heads) // (heads + 1)
    return (2 * total - (equal if mid else 0)) / (1 << (n + 1))


def _rounded(changes: list[float], grid: int) -> list[int]:
    """In steps; a change, however small, is one at least."""
    return [round(change * grid) or (1 if change > 0 else -1) for change in changes]


def _cost(steps: list[int]) -> int:
    """Bits that counting takes."""
    return sum(map(abs, steps)) // gcd(*steps) * len(steps)


def _evenly(changes: list[float]) -> float:
    """How many changes of one size would spread their sum as these do."""
    largest = max(map(abs, changes))
    squares = [(change / largest) ** 2 for change in changes]
    return fsum(squares) ** 2 / fsum(square * square for square in squares)


def _counted(steps: list[int], *, mid: bool) -> float:
    """The same for whole numbers other than 0, by counting."""
    unit = gcd(*steps)
    width = len(steps) + 1
    # A polynomial whose coefficients count the sign patterns with a given sum of gains, held in
    # one big integer, `width` bits for each: the product of (1 + x^size) over all changes.
    counts = 1
    for step in steps:
        counts += counts << (abs(step) // unit * width)
    gained = sum(step for step in steps if step > 0) // unit
    tail = counts >> (gained * width)
    digit = (1 << width) - 1
    # Digits of a number in base b add up to it modulo b - 1.
    as_good, equal = tail % digit, tail & digit
    return (2 * as_good - (equal if mid else 0)) / (1 << width)


def _approximate(changes: list[float], correction: float) -> float:
    """The same by Lugannani's and Rice's formula, with a correction for continuity."""
    sizes = [abs(change) for change in changes]
    whole = fsum(sizes)
    goal = fsum(changes) - correction
    every = 0.5 ** len(sizes)
    if goal >= whole * (1 - 1e-12):
        return every
    if goal <= -whole:
        return 1.0
    deviation = sqrt(fsum(size * size for size in sizes))
    if abs(goal) < 1e-3 * deviation:
        # The formula has a gap at 0, where the distribution is as good as normal.
        return 1 - NormalDist().cdf(goal / deviation)
    low, high = 0.0, 1.0 / deviation
    while _drift(sizes, high) < abs(goal):
        low, high = high, 2 * high
    for _ in range(60):
        tilt = (low + high) / 2
        low, high = (tilt, high) if _drift(sizes, tilt) < abs(goal) else (low, tilt)
    tilt = copysign((low + high) / 2, goal)
    # log cosh(x), without overflow.
    potential = fsum(
        abs(tilt * size) + log1p(exp(-2 * abs(tilt * size))) - log(2) for size in sizes
    )
    curve = fsum(size * size * (1 - tanh(tilt * size) ** 2) for size in sizes)
    w = copysign(sqrt(2 * max(0.0, tilt * goal - potential)), tilt)
    u = tilt * sqrt(curve)
    if not u or not w:
        return every
    normal = NormalDist()
    found = _upper(w) + normal.pdf(w) * (1 / u - 1 / w)
    return min(1.0, max(every, found))


def _drift(sizes: list[float], tilt: float) -> float:
    """The mean of the sum if gains are favoured by so much."""
    return fsum(size * tanh(tilt * size) for size in sizes)


def _upper(z: float) -> float:
    """The normal distribution beyond z, also far out."""
    return erfc(z / sqrt(2)) / 2


STAKES = tuple(share / 20 for share in range(1, 20))


def wealth(differences: Iterable[float]) -> list[float]:
    """What a bettor who starts with 1 owns after each change (-1 to 1), betting on gains.

    The bettor divides the money among fixed stakes, so nothing has to be guessed. If no change is
    expected to be a gain, the chance of ever owning `w` is at most 1 / w (Ville), however often
    and whenever one looks.
    """
    purses = [1.0 / len(STAKES)] * len(STAKES)
    owned: list[float] = []
    for difference in differences:
        purses = [
            purse * (1 + stake * difference) for purse, stake in zip(purses, STAKES, strict=True)
        ]
        owned.append(fsum(purses))
    return owned
