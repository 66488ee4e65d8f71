"""Finds the passage that an edit refers to, even if it is not quoted exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from skillopt.core.edits import Found, exactly, splits_word

ENOUGH = 85.0
"""How similar lines must be to the target (0 to 100)."""
MARGIN = 8.0
"""How much better the best place must be than the second best."""

_WORD = re.compile(r"\w+")
_TERM = re.compile(
    r"(?P<number>(?:(?<![\w.])[-+\u2212])?\d+(?:[.,]\d+)*(?:[ ]?%)?)"
    r"|[^\W\d_]+(?:['\u2019][^\W\d_]+)*"
)
_BULLET = re.compile(r"(?m)^[ \t]*(?:[-*+]|\d+[.)])[ \t]+")
_CLAUSE_END = re.compile(r"[.,;:!?()\n](?!\d)")

_NEGATIONS: Final = frozenset([
    "never", "not", "cannot", "dont", "doesnt", "isnt", "no", "none", "nobody", "nothing",
    "neither", "nor", "without", "avoid",
])  # fmt: skip
_CONDITIONS: Final = frozenset(["always", "only", "except", "unless"])
_OPPOSITES: Final = tuple(frozenset(pair.split("/")) for pair in [
    "before/after", "above/below", "first/last", "upper/lower", "more/less", "more/fewer",
    "most/least", "minimum/maximum", "include/exclude", "ascending/descending", "true/false",
    "left/right", "up/down",
])  # fmt: skip
_NUMERALS: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip


def forgiving(text: str, target: str) -> Found | None:
    """The target itself; else the same words in other dress; else clearly the most similar lines.

    A wrong place is worse than none: what is not surely the target is not found. A place that
    differs from the target in a negation, a number or another word that decides what a rule says
    is never the target.
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
    if splits_word(text, start) or splits_word(text, end):
        return None
    if not _Sense.of(_clauses(text, start, end)).agrees(_Sense.of(target)):
        return None
    return Found(*_with_dress(text, start, end, target), "normalised")


def _clauses(text: str, start: int, end: int) -> str:
    """A run of words with the rest of the clauses that it begins and ends in."""
    begun = [stop.end() for stop in _CLAUSE_END.finditer(text, 0, start)]
    ended = _CLAUSE_END.search(text, end)
    return text[begun[-1] if begun else 0 : ended.start() if ended else len(text)]


@dataclass(frozen=True, slots=True)
class _Sense:
    """What decides what a text says."""

    decisive: tuple[str, ...]
    """Its negations, conditions and numbers, in order."""
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Sense:
        terms = [*_TERM.finditer(_BULLET.sub("", text))]
        words = [term[0].casefold().replace("\u2019", "'") for term in terms]
        kinds = (
            _decisive(word, number=bool(term["number"]))
            for word, term in zip(words, terms, strict=True)
        )
        return cls(tuple(filter(None, kinds)), frozenset(words))

    def agrees(self, other: _Sense) -> bool:
        """Whether negations, conditions and numbers are the same and no word is the opposite."""
        swapped = self.words ^ other.words
        return self.decisive == other.decisive and not any(pair <= swapped for pair in _OPPOSITES)


def _decisive(word: str, *, number: bool) -> str | None:
    if number:
        return word.replace(" ", "").replace("\u2212", "-").lstrip("+")
    if word in _NEGATIONS or word.endswith("n't"):
        return "not"
    return word if word in _CONDITIONS else _NUMERALS.get(word)


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

    scored = sorted(
        (
            (score, start, end)
            for start, end in _runs(text, len(_worded(target)))
            if (score := fuzz.ratio(text[start:end], target)) >= ENOUGH - MARGIN
            and _agree(text[start:end], target)
        ),
        reverse=True,
    )
    if not scored or scored[0][0] < ENOUGH:
        return None
    best, start, end = scored[0]
    apart = [score for score, s, e in scored[1:] if e <= start or s >= end]
    if apart and best - apart[0] < MARGIN:
        return None
    return Found(start, end, "similar")


def _agree(one: str, other: str) -> bool:
    """Whether two texts of as many lines say the same line by line, as far as words decide it."""
    pairs = zip(_worded(one), _worded(other), strict=True)
    return all(_Sense.of(left).agrees(_Sense.of(right)) for left, right in pairs)


def _worded(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _runs(text: str, count: int) -> Iterator[tuple[int, int]]:
    """All runs of `count` lines that are not blank, without outer blanks."""
    lines = [
        (match.start(), match.end()) for match in re.finditer(r"[^\n]+", text) if match[0].strip()
    ]
    for at in range(len(lines) - count + 1):
        start, end = lines[at][0], lines[at + count - 1][1]
        piece = text[start:end]
        yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
