"""When two tasks are the same one in other words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rapidfuzz import fuzz

_COMPARED: Final = 600
"""Characters of a text that are compared."""
_SORTED: Final = 82.0
_SHARED: Final = 92.0
_FEWEST: Final = 4
"""Words that a text needs before sharing most of them with a longer one means something."""
_VARIABLE: Final = re.compile(r"https?://\S+|\b[0-9a-f]{7,40}\b|\d+")
_MARKS: Final = re.compile(r"[^\w]+|_")


def normal(text: str) -> str:
    """The words of a text, without what changes from one time to the next: numbers, addresses."""
    bare = _MARKS.sub(" ", _VARIABLE.sub(" 0 ", text[: 2 * _COMPARED].casefold()))
    return " ".join(bare.split())[:_COMPARED]


def alike(one: str, other: str) -> bool:
    """Whether two texts, as `normal` gives them, ask for the same."""
    if one == other:
        return True
    if fuzz.token_sort_ratio(one, other, score_cutoff=_SORTED):
        return True
    few, many = sorted((len(one.split()), len(other.split())))
    return (
        few >= _FEWEST
        and 2 * few >= many
        and fuzz.token_set_ratio(one, other, score_cutoff=_SHARED) > 0
    )


def grouped(texts: Sequence[str]) -> list[list[int]]:
    """Places of texts that are alike, directly or through others; in the order of their firsts."""
    words = [normal(text) for text in texts]
    leader = list(range(len(words)))

    def top(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    for later in range(len(words)):
        for earlier in range(later):
            if top(earlier) != top(later) and alike(words[earlier], words[later]):
                low, high = sorted((top(earlier), top(later)))
                leader[high] = low
    groups: dict[int, list[int]] = {}
    for place in range(len(words)):
        groups.setdefault(top(place), []).append(place)
    return list(groups.values())
