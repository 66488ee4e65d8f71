"""Where an edit's target stands, although models rarely quote to the letter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillopt.core.edits import Found, exactly

ENOUGH = 85.0
"""How similar lines must be to the target (0 to 100)."""
MARGIN = 8.0
"""How much better the best place must be than the second best."""

_WORD = re.compile(r"\w+")


def forgiving(text: str, target: str) -> Found | None:
    """The target itself; else the same words in other dress; else clearly the most similar lines.

    A wrong place is worse than none: what is not surely the target is not found.
    """
    return exactly(text, target) or _same_words(text, target) or _similar(text, target)


def _same_words(text: str, target: str) -> Found | None:
    """The place where the same words stand in a row, whatever case, punctuation and spacing."""
    wanted = [word.casefold() for word in _WORD.findall(target)]
    if not wanted:
        return None
    words = list(_WORD.finditer(text))
    folded = [word[0].casefold() for word in words]
    places = [
        at for at in range(len(folded) - len(wanted) + 1) if folded[at : at + len(wanted)] == wanted
    ]
    if len(places) != 1:
        return None
    first, last = words[places[0]], words[places[0] + len(wanted) - 1]
    start, end = first.start(), last.end()
    return Found(*_with_dress(text, start, end, target), "normalised")


def _with_dress(text: str, start: int, end: int, target: str) -> tuple[int, int]:
    """Widen a run of words by the marks around it, if the target has marks at that end too."""
    if not _WORD.match(target[0]):
        line = text.rfind("\n", 0, start) + 1
        if not _WORD.search(text, line, start):
            start = line + len(text[line:start]) - len(text[line:start].lstrip())
    if not _WORD.match(target[-1]):
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        if not _WORD.search(text, end, stop):
            end = stop - (len(text[end:stop]) - len(text[end:stop].rstrip()))
    return start, end


def _similar(text: str, target: str) -> Found | None:
    from rapidfuzz import fuzz

    count = target.count("\n") + 1
    scored = sorted(
        ((fuzz.ratio(text[start:end], target), start, end) for start, end in _runs(text, count)),
        reverse=True,
    )
    if not scored or scored[0][0] < ENOUGH:
        return None
    best, start, end = scored[0]
    apart = [score for score, s, e in scored[1:] if e <= start or s >= end]
    if apart and best - apart[0] < MARGIN:
        return None
    return Found(start, end, "similar")


def _runs(text: str, count: int) -> Iterator[tuple[int, int]]:
    """All runs of `count` lines, without outer blanks."""
    lines = [(match.start(), match.end()) for match in re.finditer(r"[^\n]*", text) if match[0]]
    for at in range(len(lines) - count + 1):
        start, end = lines[at][0], lines[at + count - 1][1]
        piece = text[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
