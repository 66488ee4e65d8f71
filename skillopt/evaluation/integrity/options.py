"""Features of options that predict the right one without the question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from skillopt.core.task import Gold
from skillopt.evaluation.integrity.findings import words
from skillopt.evaluation.integrity.guesses import BY_LUCK, COVERS, Cue
from skillopt.evaluation.integrity.labels import luck
from skillopt.evaluation.integrity.phrases import frequent

_OFTEN = 0.7
_LONGEST = 15


def option_cues(golds: Sequence[Gold]) -> list[Cue]:
    """Cues by place, length and wording that are right far more often than luck explains."""
    picks = {**_by_place(golds), **_by_length(golds), **_by_wording(golds)}
    chances = [1 / len(gold.options) for gold in golds]
    base, n = fmean(chances), len(golds)
    found: list[Cue] = []
    for says, picked in picks.items():
        if not picked:
            continue
        hits = sum(golds[index].right == pick for index, pick in picked.items())
        chance = fmean(chances[index] for index in picked)
        if hits < _OFTEN * len(picked) or luck(hits, len(picked), chance) * len(picks) > BY_LUCK:
            continue
        elsewhere = sum(chance for index, chance in enumerate(chances) if index not in picked)
        spoils = len(picked) >= COVERS * n
        score = (hits + elsewhere) / n
        found.append(Cue(says, hits, frozenset(picked), score, base, giveaway=spoils))
    return found


Picks = Mapping[str, Mapping[int, int]]
"""By cue: which option it picks, by item."""


def _by_place(golds: Sequence[Gold]) -> Picks:
    most = max(len(gold.options) for gold in golds)
    return {
        f"option {chr(ord('A') + place)}": {
            index: place for index, gold in enumerate(golds) if place < len(gold.options)
        }
        for place in range(most)
    }


def _by_length(golds: Sequence[Gold]) -> Picks:
    longest: dict[int, int] = {}
    shortest: dict[int, int] = {}
    for index, gold in enumerate(golds):
        sizes = [len(option) for option in gold.options]
        for extreme, found in ((max(sizes), longest), (min(sizes), shortest)):
            if sizes.count(extreme) == 1:
                found[index] = sizes.index(extreme)
    return {"the longest option": longest, "the shortest option": shortest}


def _by_wording(golds: Sequence[Gold]) -> Picks:
    """Phrases that stand in exactly one option of an item."""
    texts = [words(option) for gold in golds for option in gold.options]
    places = [(index, k) for index, gold in enumerate(golds) for k in range(len(gold.options))]
    found: dict[str, dict[int, int]] = {}
    for phrase, where in frequent(texts, len(golds), longest=_LONGEST).items():
        held = [places[each] for each in where]
        times = Counter(index for index, _ in held)
        picked = {index: k for index, k in held if times[index] == 1}
        found[f"an option with the words {' '.join(phrase)!r}"] = picked
    return found
