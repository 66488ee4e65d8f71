"""How far a judge agrees with people."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from skillopt.gates.statistics import Interval, interval

_RESAMPLES = 2000
_SEED = 20
_LEVEL = 0.95


def kappa(pairs: Sequence[tuple[str, str]]) -> Interval | None:
    """Cohen's kappa of two labels for each thing, with an interval by resampling.

    1: they always agree; 0: as often as by chance. None: both always gave the same single label,
    so that chance explains everything and there is nothing to measure. The interval is at least as
    wide as that of the agreement makes it: resampling a few pairs that all agree shows no spread.
    """
    found = _kappa(Counter(pairs))
    if found is None:
        return None
    agreement = interval([float(one == other) for one, other in pairs])
    by_chance = _by_chance(Counter(pairs))
    ends = [(end - by_chance) / (1 - by_chance) for end in (agreement.low, agreement.high)]
    chance = random.Random(_SEED)  # noqa: S311
    drawn = (Counter(chance.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    # A sample in which all labels are the same says nothing.
    values = sorted(value for sample in drawn if (value := _kappa(sample)) is not None)
    if values:
        rest = (1 - _LEVEL) / 2
        ends += (values[round(share * (len(values) - 1))] for share in (rest, 1 - rest))
    return Interval(found, max(-1.0, min(*ends, found)), min(1.0, max(*ends, found)))


def _kappa(pairs: Mapping[tuple[str, str], int]) -> float | None:
    agreed = sum(count for (one, other), count in pairs.items() if one == other)
    by_chance = _by_chance(pairs)
    return None if by_chance == 1 else (agreed / sum(pairs.values()) - by_chance) / (1 - by_chance)


def _by_chance(pairs: Mapping[tuple[str, str], int]) -> float:
    """How often both would agree if neither looked at the thing."""
    ours, theirs = Counter[str](), Counter[str]()
    for (one, other), count in pairs.items():
        ours[one] += count
        theirs[other] += count
    return sum(ours[label] * theirs[label] for label in ours) / sum(pairs.values()) ** 2
