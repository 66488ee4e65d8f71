"""The simulated optimizer looking around: what it wants to see next of the files it is told of.

It reads failed attempts, a few per turn, searches once for what was expected, and then knows only
what these results showed it.
"""

from __future__ import annotations

import re

_LISTED = re.compile(r"^(\d{3}-failed\S*\.md)  task ", re.MULTILINE)
_OPENED = re.compile(r"^(\d{3}-\S+\.md), lines \d+ to \d+ of \d+:", re.MULTILINE)
_SEARCHED = re.compile(r"^\d+ lines? found:|^No line holds ", re.MULTILINE)
_LEFT = re.compile(r"<turns_left>(\d+)</turns_left>")
_AT_ONCE = 6
_ENOUGH = 18
"""Attempts after which it has seen enough."""


def next_look(conversation: str) -> dict[str, object] | None:
    """The next turn, if it is one of looking around; None when it is time to conclude."""
    left = _LEFT.findall(conversation)
    if left and int(left[-1]) == 1:
        return None
    listed = list(dict.fromkeys(_LISTED.findall(conversation)))
    opened = set(_OPENED.findall(conversation))
    closed = [name for name in listed if name not in opened]
    if "<result " not in conversation:
        return _turn("What is there?", {"tool": "list"})
    if closed and len(opened) < _ENOUGH:
        reads = [{"tool": "read", "file": name} for name in closed[:_AT_ONCE]]
        return _turn("What went wrong in these?", *reads)
    if not _SEARCHED.search(conversation):
        return _turn("How often was something else expected?", {"tool": "grep", "text": "expected"})
    return None


def _turn(reasoning: str, *calls: dict[str, str]) -> dict[str, object]:
    return {"reasoning": reasoning, "calls": list(calls)}
