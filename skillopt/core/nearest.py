"""Finds the nearest name for a misspelt one: keys, commands, values, files and items."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LIKE = 0.6
"""How alike two names must be, from 0 to 1."""
_PART = 3
"""Characters from which on a part of a name stands for it."""


def nearest(word: str, names: Iterable[str], like: float = _LIKE) -> str | None:
    """The most similar of the names, or else the first that the word is a part of.

    Capitals, dashes and underscores make no difference.
    """
    plain = {_plain(name): name for name in reversed([*names])}
    asked = _plain(word)
    if near := get_close_matches(asked, plain, n=1, cutoff=like):
        return plain[near[0]]
    whole = [name for folded, name in plain.items() if len(asked) >= _PART and asked in folded]
    return whole[-1] if whole else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The end of a message about a name that is not known; blank where none is near."""
    near = nearest(word, names)
    return f"did you mean {near!r}?" if near else ""


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")
