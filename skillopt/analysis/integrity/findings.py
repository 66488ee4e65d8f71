"""Findings about data, and how the right answers are spread."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, lgamma, log, log1p
from typing import Literal, TypeAlias

from skillopt.core.controls import folded
from skillopt.core.task import Gold, Split
from skillopt.core.wording import counted

Verdict: TypeAlias = Literal["ok", "look", "bad", "left out"]

LEARNING: tuple[Split, ...] = ("train", "val")
"""The splits whose answers may be studied; test stays sealed."""
_WORD = re.compile(r"[^\W_]+")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CheckFinding:
    check: str
    verdict: Verdict
    found: str
    advice: str = ""
    """What to do; empty if there is nothing to do."""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A task as an agent sees it, beside its answer."""

    id: str
    split: Split
    brief: str
    gold: Gold | None = None
    told: str = ""
    """What the user calls it, if not by its id."""
    words: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The words of the brief, in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", words(self.brief))

    def __str__(self) -> str:
        return f"{self.split} {self.told or self.id}"


def words(text: str) -> tuple[str, ...]:
    """The words of a text, blind to case, punctuation and what cannot be seen."""
    return tuple(_WORD.findall(folded(text)))


def spoken(text: str) -> str:
    """The words of a text between single spaces: ` one two `, so that `in` finds whole words."""
    return f" {' '.join(words(text))} "


def label(gold: Gold) -> str:
    """What right answers are counted by: the option's letter, or the normalised answer."""
    if gold.right is not None:
        return chr(ord("A") + gold.right)
    return " ".join(words(gold.answers[0])) or gold.answers[0].strip()


def closed(golds: Sequence[Gold]) -> bool:
    """Whether the answers come from a small set, so that each of them is met again and again."""
    return len({label(gold) for gold in golds}) <= max(2, len(golds) // 5)


def few(examples: Sequence[str]) -> tuple[str, ...]:
    """The first of them, and how many more there are."""
    more = len(examples) - _SHOWN
    return (*examples[:_SHOWN], *([f"and {more} more"] if more > 0 else []))


def percent(share: float) -> str:
    """`48 %`; what is not all is never called 100 %, and what is there never 0 %."""
    if 0 < share < 0.005:
        return "under 1 %"
    return f"{min(share, 0.99) if share < 1 else 1:.0%}".replace("%", " %")


_CONSTANT, _LOPSIDED = 0.95, 0.8
_BY_LUCK = 0.001
_NAMED = 4


def balance(golds: Sequence[Gold]) -> CheckFinding:
    """The most frequent answers, and the score of always giving the first."""
    name, n = "label balance", len(golds)
    counts = Counter(label(gold) for gold in golds).most_common()
    top, times = counts[0]
    share = times / n
    shown = ", ".join(f"{answer!r} {percent(count / n)}" for answer, count in counts[:_NAMED])
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    items = counted(n, "item")
    if closed(golds) or share >= _LOPSIDED:
        found = f"{counted(len(counts), 'answer')} over {items}: {shown}{more}"
    else:
        found = f"{counted(len(counts), 'different answer')} over {items}; most frequent {top!r}"
    found += f"; always answering {top!r} scores {percent(share)}"
    if n > 1 and share >= _CONSTANT:
        advice = (
            "there is almost nothing to learn: add items with other answers, or shuffle the options"
        )
        return CheckFinding(name, "bad", found, advice)
    if share >= _LOPSIDED or _skewed(golds, times):
        advice = f"compare every score with {percent(share)}, not with 0; shuffle or rebalance"
        return CheckFinding(name, "look", found, advice)
    return CheckFinding(name, "ok", found)


def _skewed(golds: Sequence[Gold], times: int) -> bool:
    """Whether options are right in one place more often than luck explains."""
    if any(gold.right is None for gold in golds):
        return False
    places = max(len(gold.options) for gold in golds)
    return luck(times, len(golds), 1 / places) * places < _BY_LUCK


def luck(hits: int, n: int, chance: float) -> float:
    """Probability of at least so many hits in `n` tries."""
    if hits <= n * chance:
        return 1.0
    if chance <= 0:
        return 0.0
    return min(1.0, sum(exp(_log_binomial(n, k, chance)) for k in range(hits, n + 1)))


def _log_binomial(n: int, k: int, chance: float) -> float:
    misses = (n - k) * log1p(-chance) if n > k else 0.0
    return _log_ways(n, k) + k * log(chance) + misses


def drawn(hits: int, n: int, of: int, among: int) -> float:
    """Probability of at least so many hits in `n` draws from `among` items, `of` of them hits.

    Fisher's exact test, one-sided: items are drawn without putting them back.
    """
    total = _log_ways(among, n)
    most, least = min(n, of), max(hits, n + of - among)
    odds = (_log_ways(of, k) + _log_ways(among - of, n - k) for k in range(least, most + 1))
    return min(1.0, sum(exp(chance - total) for chance in odds))


def _log_ways(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
