"""Items to check, and the results of checks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.core.task import Gold, Split

Verdict: TypeAlias = Literal["ok", "look", "bad", "left out"]

LEARNING: tuple[Split, ...] = ("train", "val")
"""The splits whose answers may be studied; test stays sealed."""
_WORD = re.compile(r"[^\W_]+")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check."""

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
        """Read the brief once."""
        object.__setattr__(self, "words", words(self.brief))

    def __str__(self) -> str:
        return f"{self.split} {self.told or self.id}"


def words(text: str) -> tuple[str, ...]:
    """The words of a text, blind to case and punctuation."""
    return tuple(_WORD.findall(text.casefold()))


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


def many(number: int, noun: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """`48 %`; what is not all is never called 100 %, and what is there never 0 %."""
    if 0 < share < 0.005:
        return "under 1 %"
    return f"{min(share, 0.99) if share < 1 else 1:.0%}".replace("%", " %")
