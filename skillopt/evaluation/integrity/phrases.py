"""Frequent phrases, and phrases that predict a label."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from skillopt.evaluation.integrity.findings import Item, label
from skillopt.evaluation.integrity.guesses import ALONE, BY_LUCK, COVERS, Cue
from skillopt.evaluation.integrity.labels import drawn

Phrase = tuple[str, ...]

_LONGEST = 2
_RARE = 0.02
_RARELY = 5
_SURE = 0.9


def frequent(
    texts: Sequence[Sequence[str]], n: int, *, longest: int
) -> Mapping[Phrase, Sequence[int]]:
    """Phrases of up to `longest` words, each with the texts that hold it.

    Those in fewer than 2 % of `n` texts are left out. Longer ones are grown from shorter ones, so
    that only few are ever counted.
    """
    least = max(_RARELY, int(_RARE * n))
    found: dict[Phrase, list[int]] = {}
    for size in range(1, longest + 1):
        level: dict[Phrase, list[int]] = defaultdict(list)
        for index, text in enumerate(texts):
            grams = {tuple(text[start : start + size]) for start in range(len(text) - size + 1)}
            for gram in grams:
                if size == 1 or (gram[1:] in found and gram[:-1] in found):
                    level[gram].append(index)
        grown = {gram: where for gram, where in level.items() if len(where) >= least}
        if not grown:
            break
        found |= grown
    return found


def label_cues(items: Sequence[Item]) -> list[Cue]:
    """Phrases of the brief that nearly settle which label is right."""
    labels = [label(item.gold) if item.gold else "" for item in items]
    totals, n = Counter(labels), len(items)
    base = max(totals.values()) / n
    phrases = frequent([item.words for item in items], n, longest=_LONGEST)
    found: list[Cue] = []
    for phrase, where in phrases.items():
        inside = Counter(labels[index] for index in where)
        outside = totals - inside
        named, hits = inside.most_common(1)[0]
        score = (hits + max(outside.values(), default=0)) / n
        gains = score >= (1 + base) / 2 and hits >= _SURE * len(where)
        spoils = hits >= ALONE * len(where) and len(where) >= COVERS * n
        # Every phrase is one more chance to be right by accident.
        accident = drawn(hits, len(where), totals[named], n) * len(phrases)
        if (gains or spoils) and accident <= BY_LUCK:
            word = " ".join(phrase)
            says, there = f"{word!r} in the brief goes with {named!r}", frozenset(where)
            cue = Cue(says, hits, there, score, base, giveaway=spoils, word=word, answer=named)
            found.append(cue)
    return found
