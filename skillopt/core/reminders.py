"""Reminders: short notes on rules of a skill that were not followed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from skillopt.core.skill import scrub

_LEAD = re.compile(r"^(?:[-*+]|\d+[.)])\s+")


def tidy(note: str) -> str:
    """A note on one line, without a bullet and without region marks."""
    return _LEAD.sub("", " ".join(scrub(note).split()))


def bare(note: str) -> str:
    """Equal for notes that differ only in case, spacing and final punctuation."""
    return tidy(note).casefold().rstrip(" .,;:!?\u2026")


def new_reminders(notes: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """The notes that say something, in order, each once, without those that are known."""
    seen = {"", *map(bare, known)}
    kept: list[str] = []
    for note in map(tidy, notes):
        if (like := bare(note)) not in seen:
            seen.add(like)
            kept.append(note)
    return tuple(kept)
