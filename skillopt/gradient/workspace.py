"""The attempts of a step as read-only files in memory, for exploring.

Invalid requests get an answer in words. A search is for plain text, so that no pattern can take
longer than reading the text once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillopt.core.rollout import Rollout, Score
from skillopt.core.tokens import estimate, head
from skillopt.prompts.digest import NOTE, shorten
from skillopt.prompts.sections import attempt_section

_FIRST_WORDS = 24
"""Tokens of the feedback that a listing shows."""
_LINE = 150
"""Tokens of a line of a file; a longer one goes on in the next."""
_MATCH = 60
"""Tokens of a line that a search shows."""
_QUOTED = 20
"""Tokens of what was asked for that an answer repeats."""


_NUMBER = re.compile(r"\d{3,}-")


@dataclass(frozen=True, slots=True)
class File:
    """One attempt."""

    name: str
    task: str
    passed: bool
    about: str
    """What a listing says of it."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workspace:
    """The files, those of failed attempts first."""

    files: Mapping[str, File]

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> Workspace:
        """One file per attempt that has a score."""
        scored = [
            (rollout, rollout.outcome) for rollout in rollouts if isinstance(rollout.outcome, Score)
        ]
        scored.sort(key=lambda both: both[1].passed)
        files = [_file(number, *both) for number, both in enumerate(scored, start=1)]
        return cls({file.name: file for file in files})

    def list(self, room: int) -> str:
        """What files there are."""
        return head(_fitting([file.about for file in self.files.values()], room, "files"), room)

    def read(self, name: str, line: int, room: int) -> str:
        """A file from a line on, as far as there is room."""
        return head(self._read(name, line, room), room)

    def grep(self, text: str, room: int) -> str:
        """Lines that hold a text; `|` stands between alternatives, `.*` for anything in a line."""
        return head(self._grep(text, room), room)

    def _read(self, name: str, line: int, room: int) -> str:
        file = self.named(name)
        if file is None:
            return f"There is no file {_quoted(name)}; list shows what there is."
        total = len(file.lines)
        if not 1 <= line <= total:
            return f"{file.name} has lines 1 to {total}, no line {line}."
        shown = _as_far_as(file.lines[line - 1 :], room - 2 * NOTE)
        last = line + len(shown) - 1
        told = [f"{file.name}, lines {line} to {last} of {total}:", *shown]
        if last < total:
            told.append(f"[… {total - last} lines left out; read on from line {last + 1} …]")
        return "\n".join(told)

    def _grep(self, text: str, room: int) -> str:
        wanted = [_pieces(each) for each in text.split("|")]
        wanted = [pieces for pieces in wanted if pieces]
        if not wanted:
            return "A search needs a text to look for."
        found = [
            f"{file.name}:{number}: {shorten(line.strip(), _MATCH)}"
            for file in self.files.values()
            for number, line in enumerate(file.lines, start=1)
            if any(_holds(line.casefold(), pieces) for pieces in wanted)
        ]
        if not found:
            return (
                f"No line holds {_quoted(text)}. A search is for plain text in any case; "
                "`|` stands between alternatives, `.*` for anything within a line."
            )
        heading = f"{len(found)} line{'' if len(found) == 1 else 's'} found:"
        return f"{heading}\n{_fitting(found, room - NOTE, 'lines')}"

    def named(self, name: str) -> File | None:
        """The file that a name means; its number is enough."""
        number = _NUMBER.match(name.strip().removeprefix("./"))
        return next(
            (each for key, each in self.files.items() if number and key.startswith(number[0])), None
        )


def _file(number: int, rollout: Rollout, score: Score) -> File:
    mark = "passed" if score.passed else "failed"
    kind = re.sub(r"[^a-z0-9]+", "-", rollout.kind.lower()).strip("-")[:30]
    name = "-".join(part for part in (f"{number:03d}", mark, kind) if part) + ".md"
    text = attempt_section(rollout)
    word = shorten(" ".join(score.feedback.split()), _FIRST_WORDS)
    about = f"{name}  task {rollout.task}  about {estimate(text)} tokens  {word}".rstrip()
    return File(name, rollout.task, score.passed, about, tuple(_wrapped(text)))


def _wrapped(text: str) -> Iterator[str]:
    """Lines of which none is too long to be read from its start to its end."""
    for line in text.splitlines():
        rest = line
        while estimate(rest) > _LINE:
            piece = head(rest, _LINE)
            yield piece
            rest = rest[len(piece) :]
        yield rest


def _fitting(rows: Sequence[str], room: int, what: str) -> str:
    shown = _as_far_as(rows, room - NOTE)
    left = len(rows) - len(shown)
    return "\n".join([*shown, f"[… {left} more {what} …]"] if left else shown)


def _as_far_as(lines: Sequence[str], room: int) -> list[str]:
    """The lines that fit, at least the first, cut if need be."""
    shown: list[str] = []
    for line in lines:
        size = estimate(f"{line}\n")
        if shown and size > room:
            break
        shown.append(shorten(line, max(room, NOTE)))
        room -= size
    return shown


def _pieces(text: str) -> list[str]:
    unescaped = re.sub(r"\\([^\w\s])", r"\1", text.replace(".*", "\0"))
    return [piece for each in unescaped.split("\0") if (piece := each.strip().casefold())]


def _holds(line: str, pieces: Sequence[str]) -> bool:
    at = 0
    for piece in pieces:
        found = line.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _quoted(text: str) -> str:
    # Escaping can make a text ten times as long, so it is cut after it.
    return shorten(repr(text), _QUOTED)
