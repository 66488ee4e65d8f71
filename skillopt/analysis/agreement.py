"""How far a judge agrees with people."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from skillopt.gates.statistics import Interval

_RESAMPLES = 2000
_SEED = 20
_LEVEL = 0.95


def kappa(pairs: Sequence[tuple[str, str]]) -> Interval | None:
    """Cohen's kappa of two labels for each thing, with an interval by resampling.

    1: they always agree; 0: as often as by chance. None: both always gave the same single label,
    so that chance explains everything and there is nothing to measure.
    """
    found = _kappa(Counter(pairs))
    if found is None:
        return None
    chance = random.Random(_SEED)  # noqa: S311
    drawn = (Counter(chance.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    # A sample in which all labels are the same says nothing.
    values = sorted(value for sample in drawn if (value := _kappa(sample)) is not None)
    if not values:
        return Interval(found, found, found)
    rest = (1 - _LEVEL) / 2
    low, high = (values[round(share * (len(values) - 1))] for share in (rest, 1 - rest))
    return Interval(found, min(low, found), max(high, found))


def _kappa(pairs: Mapping[tuple[str, str], int]) -> float | None:
    n = sum(pairs.values())
    ours, theirs = Counter[str](), Counter[str]()
    for (one, other), count in pairs.items():
        ours[one] += count
        theirs[other] += count
    agreed = sum(count for (one, other), count in pairs.items() if one == other) / n
    by_chance = sum(ours[label] * theirs[label] for label in ours) / n**2
    return None if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)
