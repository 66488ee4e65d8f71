"""Shortens long attempts: start, end, errors and tool calls stay, and gaps are marked.

Deterministic: the same attempt with the same limit is always shortened in the same way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skillopt.core.chat import Message
from skillopt.core.tokens import estimate, head, tail

NO_LIMIT = sys.maxsize
NOTE = 16
"""Maximum tokens of a note about something left out, with its line breaks."""
_SHARE = 6
"""Minimum number of long turns that share the space."""
_TROUBLE = re.compile(
    r"error|exception|traceback|fail(?:ed|ure)|fatal|denied|refused|not found|no such|invalid"
    r"|timed? ?out|exit (?:code|status) [1-9]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Digest:
    """Maximum tokens of the attempts in a prompt."""

    attempt: int = 6000
    """Maximum tokens of one attempt."""
    question: int = 60_000
    """Maximum tokens of all attempts."""

    def rooms(self, sizes: Sequence[int]) -> list[int]:
        """Tokens for each attempt of a prompt: what short ones do not need goes to long ones."""
        return fair([min(size, self.attempt) for size in sizes], self.question)


@dataclass(frozen=True, slots=True)
class Excerpt:
    task: str = ""
    turns: str = ""
    answer: str = ""
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """An attempt as it is shown in a prompt."""

    task: str = ""
    turns: tuple[Message, ...] = ()
    answer: str = ""
    feedback: str = ""

    @property
    def lines(self) -> list[str]:
        return [_line(turn) for turn in self.turns]

    @property
    def whole(self) -> Excerpt:
        return Excerpt(self.task, "\n".join(self.lines), self.answer, self.feedback)


def _line(turn: Message) -> str:
    calls = [f"[call] {call.name} {call.arguments}" for call in turn.calls]
    return "\n".join((f"[{turn.role}] {turn.text}", *calls))


def cut(story: Story, room: int) -> Excerpt:
    """The attempt in at most `room` tokens; unchanged if it fits."""
    whole = story.whole
    ends = [whole.task, whole.answer, whole.feedback]
    sizes = [estimate(text) for text in ends]
    for_ends, for_turns = fair([sum(sizes), estimate(whole.turns)], room)
    task, answer, feedback = map(shorten, ends, fair(sizes, for_ends))
    return Excerpt(task, _cut_turns(story, for_turns), answer, feedback)


def shorten(text: str, room: int) -> str:
    """The text in at most `room` tokens: unchanged, or its start and end with a note between."""
    size = estimate(text)
    if size <= room:
        return text
    half = (room - NOTE) // 2
    if half < NOTE:
        return head(text, room)
    start, end = head(text, half), tail(text, half)
    left = size - estimate(start) - estimate(end)
    return f"{start}\n[… about {left} tokens left out …]\n{end}"


def fair(sizes: Sequence[int], room: int) -> list[int]:
    """Share the space: none gets more than its size, and the rest goes to the others."""
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for place, index in enumerate(order):
        shares[index] = min(sizes[index], room // (len(order) - place))
        room -= shares[index]
    return shares


def _cut_turns(story: Story, room: int) -> str:
    if estimate(story.whole.turns) <= room:
        return story.whole.turns
    lines = [f"{line}\n" for line in story.lines]
    sizes = [estimate(line) for line in lines]
    kept = _kept(_by_weight(story.turns), sizes, room)
    # Around n kept turns there are at most n + 1 gaps, and each may need a note.
    shares = fair([sizes[index] for index in kept], room - NOTE * (len(kept) + 1))
    shown = {
        index: shorten(lines[index].removesuffix("\n"), share)
        for index, share in zip(kept, shares, strict=True)
    }
    return "\n".join(_told(shown, sizes)) if room >= NOTE else ""


def _kept(order: Sequence[int], sizes: Sequence[int], room: int) -> list[int]:
    """The most important turns that fit; a long one counts as shortened to its share."""
    longest = max(room // _SHARE, NOTE)
    kept: list[int] = []
    left = room - NOTE
    for index in order:
        cost = min(sizes[index], longest) + NOTE
        if cost <= left:
            kept.append(index)
            left -= cost
    return sorted(kept)


def _by_weight(turns: Sequence[Message]) -> list[int]:
    """Turns by importance: the first and last, then errors, tool calls, and later turns."""

    def weight(index: int) -> tuple[int, int]:
        if index in (0, len(turns) - 1):
            return 0, -index
        if _TROUBLE.search(turns[index].text):
            return 1, -index
        calls = turns[index].role == "assistant" and turns[index + 1].role == "tool"
        return 2 if calls else 3, -index

    return sorted(range(len(turns)), key=weight)


def _told(shown: dict[int, str], sizes: Sequence[int]) -> Iterator[str]:
    """The turns that are shown, with a note at each gap."""
    missing: list[int] = []
    for index, size in enumerate(sizes):
        if index not in shown:
            missing.append(size)
            continue
        if missing:
            yield _note(missing)
            missing = []
        yield shown[index]
    if missing:
        yield _note(missing)


def _note(missing: Sequence[int]) -> str:
    many = f"{len(missing)} message{'' if len(missing) == 1 else 's'}"
    return f"[… {many}, about {sum(missing)} tokens left out …]"
