"""Features that predict the answer: how often they are right, and what they score alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from skillopt.evaluation.integrity.findings import Item, words
from skillopt.evaluation.integrity.labels import luck

ALONE = 0.95
"""How often a cue must be right to spoil the data."""
COVERS = 0.05
"""Share of items that a cue must decide before it spoils the data."""
BY_LUCK = 0.001
"""Probability, over all cues that were tried, from which luck does not explain one."""
_OFTEN = 0.5
_SHARED = 0.5
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]+)[\"\u201d]")


@dataclass(frozen=True, slots=True)
class Cue:
    """One surface feature and what following it comes to."""

    says: str
    hits: int
    where: frozenset[int]
    """The items that have the feature, by index."""
    score: float
    """Of following the cue where it is there, and guessing elsewhere."""
    base: float
    """Of guessing everywhere."""
    giveaway: bool
    """Whether it decides so much that it must not be there."""
    word: str = ""
    """The word or two of the brief, where it goes by these."""
    answer: str = ""
    """The label that goes with them."""

    @property
    def support(self) -> int:
        """How many items have it."""
        return len(self.where)

    @property
    def precision(self) -> float:
        """How often it is right where it is there."""
        return self.hits / self.support


def strongest(cues: Iterable[Cue]) -> list[Cue]:
    """The best first; of cues on mostly the same items only the best."""
    kept: list[Cue] = []
    for cue in sorted(cues, key=lambda each: (-each.score, -len(each.says), each.says)):
        if not any(len(cue.where & each.where) > _SHARED * cue.support for each in kept):
            kept.append(cue)
    return kept


def spans(items: Sequence[Item]) -> list[Cue]:
    """For open answers: places of the brief that hold the answer and nothing else."""
    found: list[Cue] = []
    golds = [_accepted(item) for item in items]
    most = max(Counter(each for gold in golds for each in gold).values(), default=0) / len(items)
    for says, take in _PLACES.items():
        taken = [words(take(item.brief)) for item in items]
        where = frozenset(index for index, each in enumerate(taken) if each)
        hits = sum(taken[index] in golds[index] for index in where)
        score = hits / len(items)
        accident = luck(hits, len(where), most) * len(_PLACES)
        always = len(where) >= COVERS * len(items) and hits >= ALONE * len(where)
        if score >= _OFTEN or (always and accident <= BY_LUCK):
            found.append(Cue(f"{says} is the answer", hits, where, score, 0.0, giveaway=True))
    return found


def _accepted(item: Item) -> set[tuple[str, ...]]:
    return {words(each) for each in item.gold.answers} if item.gold else set()


def _nth(found: Sequence[str], index: int) -> str:
    return found[index] if found else ""


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _largest(text: str) -> str:
    return max(_numbers(text), key=lambda each: float(each.replace(",", "")), default="")


_PLACES: dict[str, Callable[[str], str]] = {
    "the first word": lambda text: _nth(text.split(), 0),
    "the last word": lambda text: _nth(text.split(), -1),
    "the first line": lambda text: _nth(text.strip().splitlines(), 0),
    "the last line": lambda text: _nth(text.strip().splitlines(), -1),
    "the first number": lambda text: _nth(_numbers(text), 0),
    "the last number": lambda text: _nth(_numbers(text), -1),
    "the largest number": _largest,
    "the first quotation": lambda text: _nth(_QUOTED.findall(text), 0),
    "the last quotation": lambda text: _nth(_QUOTED.findall(text), -1),
}
