"""Differences of skills word by word, and changes of one text carried over to another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from skillopt.core.skill import Skill
from skillopt.errors import SkillError

_PIECES = re.compile(r"\s+|\w+|[^\w\s]")
_ALIKE = 0.35
"""Lines that have less in common are not compared word by word."""
_LONGEST = 2000
"""Words of a line above which it is shown as changed as a whole."""

LineKind: TypeAlias = Literal["same", "removed", "added", "gap"]
Standing: TypeAlias = Literal["in", "out", "in part"]
"""Whether a skill has the lines of a change: all, none, or some of them."""


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A part of a line, and whether it is what differs."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: LineKind
    """`gap`: lines that both have were left out here."""
    old: int | None
    """Its number in the old text, from 1."""
    new: int | None
    pieces: tuple[DiffPiece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    lines: tuple[DiffLine, ...]

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for line in self.lines)


def skill_differences(old: Skill, new: Skill, context: int | None = None) -> tuple[FileDiff, ...]:
    """The files that differ, line by line with changed words marked.

    `context`: how many common lines are kept around a change; None: all of them.
    """
    before, after = old.files, new.files
    return tuple(
        FileDiff(path, differences(before.get(path, ""), after.get(path, ""), context))
        for path in dict.fromkeys([*before, *after])
        if before.get(path, "") != after.get(path, "")
    )


def differences(old: str, new: str, context: int | None = None) -> tuple[DiffLine, ...]:
    """Two texts line by line; of lines that were reworded, the words that differ are marked."""
    was, now = old.splitlines(), new.splitlines()
    lines: list[DiffLine] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs = zip(range(i1, i2), range(j1, j2), strict=True)
            lines += [DiffLine("same", i + 1, j + 1, (DiffPiece(was[i]),)) for i, j in pairs]
        else:
            lines += _replaced(was, now, range(i1, i2), range(j1, j2))
    return tuple(lines if context is None else _near_changes(lines, context))


def _replaced(
    was: Sequence[str], now: Sequence[str], gone: range, come: range
) -> Iterator[DiffLine]:
    """Lines that went and lines that came in their place; those alike are compared in order."""
    marked_old: dict[int, tuple[DiffPiece, ...]] = {}
    marked_new: dict[int, tuple[DiffPiece, ...]] = {}
    waiting = list(come)
    for i in gone:
        for place, j in enumerate(waiting):
            pieces = _words(was[i], now[j])
            if pieces is not None:
                marked_old[i], marked_new[j] = pieces
                waiting = waiting[place + 1 :]
                break
    for i in gone:
        yield DiffLine(
            "removed", i + 1, None, marked_old.get(i, (DiffPiece(was[i], changed=True),))
        )
    for j in come:
        yield DiffLine("added", None, j + 1, marked_new.get(j, (DiffPiece(now[j], changed=True),)))


def _words(old: str, new: str) -> tuple[tuple[DiffPiece, ...], tuple[DiffPiece, ...]] | None:
    """Both lines in pieces; None where they are not alike enough to compare."""
    was, now = _PIECES.findall(old), _PIECES.findall(new)
    if max(len(was), len(now)) > _LONGEST:
        return None
    matcher = SequenceMatcher(None, was, now, autojunk=False)
    if matcher.quick_ratio() < _ALIKE or matcher.ratio() < _ALIKE:
        return None
    left: list[DiffPiece] = []
    right: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        changed = tag != "equal"
        if i1 < i2:
            left.append(DiffPiece("".join(was[i1:i2]), changed))
        if j1 < j2:
            right.append(DiffPiece("".join(now[j1:j2]), changed))
    return tuple(left), tuple(right)


def _near_changes(lines: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    """Only lines near a change; what is left out between them becomes a gap."""
    changed = [index for index, line in enumerate(lines) if line.kind != "same"]
    near = {at for index in changed for at in range(index - context, index + context + 1)}
    skipped = 0
    for index, line in enumerate(lines):
        if index in near:
            if skipped:
                yield _gap(skipped)
            skipped = 0
            yield line
        else:
            skipped += 1
    if skipped and changed:
        yield _gap(skipped)


def _gap(lines: int) -> DiffLine:
    return DiffLine("gap", None, None, (DiffPiece(f"{lines} line{'s' if lines > 1 else ''}"),))


class _Hunk(NamedTuple):
    """Lines of the old text, and what takes their place."""

    start: int
    end: int
    lines: tuple[str, ...]


def standing(base: Skill, changed: Skill, skill: Skill) -> Standing:
    """Whether what makes `changed` of `base` is in a skill, wherever its lines stand there."""
    if skill in (base, changed):
        return "in" if skill == changed else "out"
    was, now, there = (_counted(each) for each in (base, changed, skill))
    differing = [line for line in was | now if was[line] != now[line]]
    # Lines that both texts have, such as fences, may come and go with other changes, too.
    telling = [line for line in differing if not (was[line] and now[line])] or differing
    has = {
        there[line] >= now[line] if now[line] > was[line] else there[line] <= now[line]
        for line in telling
    }
    lacks = {
        there[line] <= was[line] if now[line] > was[line] else there[line] >= was[line]
        for line in telling
    }
    return "in" if has == {True} else "out" if lacks == {True} else "in part"


def _counted(skill: Skill) -> Counter[str]:
    """How often each line is there; empty ones and marks of regions and files are none."""
    lines = (line.strip() for line in skill.render().splitlines())
    return Counter(line for line in lines if line and not line.startswith("<!--"))


def carried_over(base: Skill, changed: Skill, onto: Skill) -> Skill | None:
    """`onto` with what makes `changed` of `base`; None where both change the same lines.

    What `onto` has already does not come twice.
    """
    if base == onto:
        return changed
    if base == changed or standing(base, changed, onto) == "in":
        return onto
    ours, theirs = _hunks(base, onto), _hunks(base, changed)
    if any(_collide(mine, other) for mine in ours for other in theirs):
        return None
    theirs = [hunk if hunk in ours else _without_repeats(hunk, ours) for hunk in theirs]
    hunks = sorted({*ours, *theirs}, key=lambda hunk: (hunk.start, hunk.end, hunk not in ours))
    lines, out, at = _lines(base), list[str](), 0
    for hunk in hunks:
        out += [*lines[at : hunk.start], *hunk.lines]
        at = hunk.end
    made = _parsed([*out, *lines[at:]], onto)
    if made == onto and standing(base, changed, onto) == "out" and not any(h.lines for h in theirs):
        # All that it takes out is still there, but has moved.
        return _parsed(_without(_lines(onto), _counted(base) - _counted(changed)), onto)
    return made


def _without(lines: Sequence[str], gone: Counter[str]) -> list[str]:
    """The lines but for the last ones of each that shall be gone."""
    kept: list[str] = []
    for line in reversed(lines):
        if gone[line.strip()] > 0:
            gone[line.strip()] -= 1
        else:
            kept.append(line)
    return kept[::-1]


def _parsed(lines: Sequence[str], onto: Skill) -> Skill | None:
    text = "".join(lines)
    ends = onto.render().endswith(("\n", "\r"))
    try:
        return Skill.parse(text if ends else text.rstrip("\r\n"))
    except SkillError:
        return None


def _lines(skill: Skill) -> list[str]:
    """Lines with their ends; the last one has one, too, so that text can be added after it."""
    text = skill.render()
    return (text if not text or text.endswith("\n") else text + skill.newline).splitlines(
        keepends=True
    )


def _hunks(base: Skill, new: Skill) -> list[_Hunk]:
    was, now = _lines(base), _lines(new)
    return [
        _Hunk(i1, i2, tuple(now[j1:j2]))
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
        if tag != "equal"
    ]


def _without_repeats(hunk: _Hunk, ours: Sequence[_Hunk]) -> _Hunk:
    """The hunk without lines of text that ours have put at the same place."""
    beside = {
        line.strip()
        for mine in ours
        if mine.start <= hunk.end and hunk.start <= mine.end
        for line in mine.lines
        if re.search(r"\w", line) and not line.lstrip().startswith("<!--")
    }
    return hunk._replace(lines=tuple(line for line in hunk.lines if line.strip() not in beside))


def _collide(one: _Hunk, other: _Hunk) -> bool:
    """Whether both change the same lines, each in its own way; additions may stand side by side."""
    if one == other:
        return False
    return one.start < other.end and other.start < one.end
