"""The rules of a skill, and the skill without some of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, groupby
from typing import Final, Literal

from skillopt.core.skill import MAIN, Reference, Skill, Text

_NEGLIGIBLE: Final = 0.05
"""An effect of less than this, in either direction, counts as none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A bullet with all that belongs to it, or the whole text of a section without bullets.

    Headings, front matter and protected regions are no rules, nor is what leads up to bullets.
    """

    file: str
    line: int
    """Where it begins in its file, from 1."""
    text: str

    @property
    def last(self) -> int:
        return self.line + self.text.count("\n")


@dataclass(frozen=True, slots=True)
class Worth:
    """By how much tasks go better with a rule than without it, on average."""

    rule: Rule
    gain: float
    low: float
    """From here to `high`: the 95 % interval of the gain."""
    high: float
    n: int
    """Tasks that were scored both ways."""
    changed: int
    """Those of them that went otherwise."""

    @property
    def verdict(self) -> Literal["useful", "harmful", "unclear", "no effect"]:
        """Whether the rule surely helps or harms, may do either, or makes no difference.

        That no task changed on a few tasks leaves it unclear: their interval is too wide.
        """
        if self.low > 0:
            return "useful"
        if self.high < 0:
            return "harmful"
        narrow = self.low > -_NEGLIGIBLE and self.high < _NEGLIGIBLE
        return "no effect" if narrow and not self.changed else "unclear"


@dataclass(frozen=True, slots=True)
class Cut:
    """What came of leaving rules out."""

    worths: tuple[Worth, ...] = ()
    """Of every rule."""
    rules: tuple[Rule, ...] = ()
    """Those that nothing misses, all of them together."""


def rules_in(skill: Skill) -> tuple[Rule, ...]:
    """The rules of all files, in the order in which they stand."""
    return tuple(
        Rule(passage.file, passage.line + start, "".join(passage.lines[start:stop]).rstrip())
        for passage in _passages(skill)
        for start, stop in _rules(passage.lines)
    )


def without(skill: Skill, rules: Collection[Rule]) -> Skill:
    """The skill without some of its rules, and without headings below which nothing is left.

    Titles (headings of the first level) stay, and all other text is as it was, apart from blank
    lines around what went. Where that would make a region or front matter of it, nothing goes.
    """
    gone = {(rule.file, rule.line) for rule in rules}
    texts = {passage.place: _left(passage, gone) for passage in _passages(skill)}
    parts = [
        Text(texts[MAIN, at]) if isinstance(part, Text) else part
        for at, part in enumerate(skill.parts)
    ]
    references = [
        Reference(reference.path, texts[reference.path, 0]) for reference in skill.references
    ]
    made = Skill.of(skill.front, parts, references)
    return made if Skill.parse(made.render()) == made else skill


@dataclass(frozen=True, slots=True)
class _Passage:
    """Text that edits may reach: a part of SKILL.md, or a reference."""

    file: str
    part: int
    line: int
    """Of the first of its lines in the file."""
    lines: Sequence[str]
    """With their ends."""
    head: str = ""
    """What stands on a line with the mark before it."""
    tail: str = ""
    """What stands on a line with the mark after it."""

    @property
    def place(self) -> tuple[str, int]:
        return self.file, self.part


def _passages(skill: Skill) -> Iterator[_Passage]:
    before = skill.front
    for at, part in enumerate(skill.parts):
        if isinstance(part, Text):
            head = "" if before[-1:] in ("", "\n") else "".join(_lines(part.text)[:1])
            rest = part.text[len(head) :]
            tail = rest[rest.rfind("\n") + 1 :] if at + 1 < len(skill.parts) else ""
            line = (before + head).count("\n") + 1
            lines = _lines(rest[: len(rest) - len(tail)])
            yield _Passage(MAIN, at, line, lines, head, tail)
        before += part.text if isinstance(part, Text) else part.render()
    for reference in skill.references:
        yield _Passage(reference.path, 0, 1, _lines(reference.text))


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|\r?\n|\Z)")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_BULLET = re.compile(r"( {0,3}(?:[-*+]|\d{1,9}[.)]) +)(?=\S)")


def _levels(lines: Sequence[str]) -> list[int | None]:
    """What each line is: a heading of some level, plain (0), or within a code block (None)."""
    found: list[int | None] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        inside = bool(fence)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        heading = _HEADING.match(line)
        found.append(None if inside else len(heading[1]) if heading else 0)
    return found


def _rules(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where rules begin and end."""
    levels = _levels(lines)
    heads = [at for at, level in enumerate(levels) if level]
    found: list[tuple[int, int]] = []
    for head, stop in zip([-1, *heads], [*heads, len(lines)], strict=True):
        prose = _trimmed(lines, head + 1, stop)
        found += _bullets(lines, levels, head + 1, stop) or ([prose] if prose else [])
    return found


def _bullets(
    lines: Sequence[str], levels: Sequence[int | None], start: int, stop: int
) -> list[tuple[int, int]]:
    """The outermost bullets of a section, each with its further lines and nested bullets."""
    found: list[tuple[int, int]] = []
    begun: int | None = None
    inner, blank = 0, False
    for at in range(start, stop):
        line = lines[at].expandtabs(4)
        if not line.strip():
            blank = True
            continue
        bullet = None if levels[at] is None else _BULLET.match(line)
        below = begun is not None and (levels[at] is None or _indent(line) >= inner)
        if not below and (bullet or blank):
            if begun is not None:
                found.append((begun, at))
            begun, inner = (at, bullet.end()) if bullet else (None, 0)
        blank = False
    if begun is not None:
        found.append((begun, stop))
    return [trimmed for lines_of_bullet in found if (trimmed := _trimmed(lines, *lines_of_bullet))]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _trimmed(lines: Sequence[str], start: int, stop: int) -> tuple[int, int] | None:
    """The same lines without blank ones around them; None when nothing is left."""
    worded = [at for at in range(start, stop) if lines[at].strip()]
    return (worded[0], worded[-1] + 1) if worded else None


def _left(passage: _Passage, gone: Collection[tuple[str, int]]) -> str:
    """A passage without some of its rules."""
    lines = passage.lines
    cut: set[int] = set()
    for start, stop in _rules(lines):
        if (passage.file, passage.line + start) in gone:
            cut.update(range(start, stop))
    if cut:
        lines = list(_without_gaps(lines, _with_empty_heads(lines, cut)))
    return f"{passage.head}{''.join(lines)}{passage.tail}"


def _with_empty_heads(lines: Sequence[str], cut: Collection[int]) -> set[int]:
    """The same cut, and headings that had something below them and have nothing any more."""
    levels = _levels(lines)
    gone = set(cut)
    for at in reversed(range(len(lines))):
        level = levels[at]
        if not level or level == 1 or at in gone:
            continue
        below = _below(levels, at, level)
        worded = [line for line in below if lines[line].strip()]
        if worded and gone.issuperset(worded):
            gone.add(at)
    return gone


def _below(levels: Sequence[int | None], at: int, level: int) -> range:
    """The lines of a heading's section, those of its subsections included."""
    ends = (line for line in range(at + 1, len(levels)) if 0 < (levels[line] or 0) <= level)
    return range(at + 1, next(ends, len(levels)))


def _without_gaps(lines: Sequence[str], cut: Collection[int]) -> Iterator[str]:
    """The lines that stay; of the blank lines on both sides of a cut, those before it stay."""
    blank_before, after_cut = True, False
    for gone, group in groupby(range(len(lines)), key=lambda at: at in cut):
        if gone:
            after_cut = True
            continue
        kept = [lines[at] for at in group]
        if after_cut and blank_before:
            kept = list(dropwhile(lambda line: not line.strip(), kept))
        after_cut = False
        yield from kept
        if kept:
            blank_before = not kept[-1].strip()
