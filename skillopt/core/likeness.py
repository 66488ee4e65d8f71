"""Compares two short texts by their words."""

from __future__ import annotations

import re

_OPENING = "\"'`*_([{\u201c\u2018"
_CLOSING = "\"'`*_)]}\u201d\u2019.,;:!?"
_FILLERS = frozenset(("a", "an", "the", "please", "just", "also", "very", "simply"))
_WORD = re.compile(r"[^\W_]+")
_ALIKE = 0.75
"""Share of common words above which two texts are taken for two wordings of one thing."""


def words(text: str) -> tuple[str, ...]:
    """The words of a rule without marks, fillers and ordinary capitals.

    What may be the very point of a rule stays: the order of words, marks within them (2024-01-31
    is not 2024.01.31), and capitals that are not just the first of a word (Y, P1, ISO).
    """
    bare = (piece.lstrip(_OPENING).rstrip(_CLOSING) for piece in text.split())
    folded = (word.casefold() if word[1:].islower() or word in "AI" else word for word in bare)
    return tuple(
        word for word in folded if word not in _FILLERS and any(letter.isalnum() for letter in word)
    )


def similar(one: str, other: str) -> bool:
    """Whether two texts share most of their words: enough to list them as one, no more."""
    ours, theirs = _stems(one), _stems(other)
    if not ours or not theirs:
        return ours == theirs
    return len(ours & theirs) / len(ours | theirs) >= _ALIKE


def _stems(text: str) -> set[str]:
    found = {word.casefold() for word in _WORD.findall(text)} - _FILLERS
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found}
