"""Items for checks of data, written and not collected."""

from __future__ import annotations

import random
from collections.abc import Sequence

from skillopt.analysis.integrity.findings import Item
from skillopt.core.task import Gold, Split

_SYLLABLES = (
    "ba",
    "de",
    "fi",
    "go",
    "hu",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "vo",
    "wu",
    "xa",
)


def prose(chance: random.Random, length: int) -> str:
    """Words without meaning, hardly ever the same twice."""
    return " ".join("".join(chance.choices(_SYLLABLES, k=3)) for _ in range(length))


def asked(
    name: str,
    brief: str,
    answer: str | None = None,
    split: Split = "train",
    *,
    quoted: bool = False,
) -> Item:
    """An open question."""
    gold = None if answer is None else Gold(answers=(answer,), reply=answer, quoted=quoted)
    return Item(name, split, brief, gold)


def choice(name: str, options: Sequence[str], right: int, split: Split = "train") -> Item:
    """A question with options."""
    gold = Gold(answers=(options[right],), options=tuple(options), right=right)
    listed = "\n".join(f"{chr(65 + k)}. {text}" for k, text in enumerate(options))
    return Item(name, split, f"Question {name}?\n\n{listed}", gold)
