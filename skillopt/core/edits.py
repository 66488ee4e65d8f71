"""What a proposal may ask for: edits and their application, suggestions, whole new bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from typing_extensions import assert_never

from skillopt.core.skill import MAIN, Reference, Region, Skill, Text, is_reference, scrub
from skillopt.errors import SkillError


@dataclass(frozen=True, slots=True)
class Append:
    """Add text at the end of the body, before a region that closes the document.

    In a package, a file that is not there yet is made.
    """

    content: str
    op: Literal["append"] = "append"
    file: str = MAIN


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Add text after the line that holds `target`; without such a line, append it."""

    target: str
    content: str
    op: Literal["insert_after"] = "insert_after"
    file: str = MAIN


@dataclass(frozen=True, slots=True)
class Replace:
    """Put `content` where `target` stands first."""

    target: str
    content: str
    op: Literal["replace"] = "replace"
    file: str = MAIN


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove `target` where it stands first; whole lines go with their line break."""

    target: str
    op: Literal["delete"] = "delete"
    file: str = MAIN


Edit: TypeAlias = Append | InsertAfter | Replace | Delete

Status: TypeAlias = Literal[
    "applied_append",
    "applied_append_before_protected_region",
    "applied_insert_after",
    "applied_insert_after_fallback_append",
    "applied_insert_after_fallback_before_protected_region",
    "applied_replace",
    "applied_delete",
    "applied_append_new_file",
    "skipped_unknown_file",
    "skipped_protected_region",
    "skipped_no_change",
    "skipped_empty_content",
    "skipped_already_present",
    "skipped_replace_missing_target",
    "skipped_replace_target_not_found",
    "skipped_delete_missing_target",
    "skipped_delete_target_not_found",
]


class Found(NamedTuple):
    """Where a target stands in a text, and how it was recognised."""

    start: int
    end: int
    how: Literal["exact", "normalised", "similar"] = "exact"


class Locate(Protocol):
    """Find a target in a text; None when it is not there, or not surely enough."""

    def __call__(self, text: str, target: str) -> Found | None: ...


@dataclass(frozen=True, slots=True)
class Placement:
    edit: Edit
    status: Status
    how: Literal["exact", "normalised", "similar"] = "exact"

    @property
    def applied(self) -> bool:
        return self.status.startswith("applied")


class Applied(NamedTuple):
    """A skill after edits, and a report on each of them."""

    skill: Skill
    report: tuple[Placement, ...]


def exactly(text: str, target: str) -> Found | None:
    """Locate by equality; a place that begins or ends inside a word or a number does not count."""
    start = text.find(target)
    while start >= 0:
        end = start + len(target)
        if not (splits_word(text, start) or splits_word(text, end)):
            return Found(start, end)
        start = text.find(target, start + 1)
    return None


_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts that put no blank between words: a border may be anywhere."""
_JOINED = re.compile(
    rf"(?<=[^\W{_UNSPACED}])(?=[^\W{_UNSPACED}])"
    r"|(?<=\d)(?=[.,]\d)|(?<=\d[.,])(?=\d)"
    r"|(?<=[^\W\d_])(?=['\u2019][^\W\d_])|(?<=[^\W\d_]['\u2019])(?=[^\W\d_])"
)


def splits_word(text: str, at: int) -> bool:
    """Whether a cut at this place would go through a word (`don't`) or a number (`2.5`)."""
    return _JOINED.match(text, at) is not None


def apply_edits(skill: Skill, edits: Iterable[Edit], locate: Locate = exactly) -> Applied:
    """Apply edits in order, each to the outcome of those before it.

    An edit reaches its own file only. Regions, front matter and marks stay untouched: an edit that
    would change where they are is not made.
    """
    report: list[Placement] = []
    for edit in edits:
        skill, placement = _apply_soundly(skill, edit, locate)
        report.append(placement)
    return Applied(skill, tuple(report))


def _apply_soundly(skill: Skill, edit: Edit, locate: Locate) -> tuple[Skill, Placement]:
    """Apply an edit only if what comes out still reads as what it is."""
    try:
        changed, placement = _apply_in_file(skill, edit, locate)
        if Skill.parse(changed.render()) != changed:
            return skill, Placement(edit, "skipped_protected_region")
    except SkillError:
        return skill, Placement(edit, "skipped_protected_region")
    if placement.applied and changed == skill:
        placement = Placement(edit, "skipped_no_change", placement.how)
    return changed, placement


def _apply_in_file(skill: Skill, edit: Edit, locate: Locate) -> tuple[Skill, Placement]:
    """Treat the edit's file as a document of its own, and put it back in its place."""
    if edit.file == MAIN:
        changed, placement = _apply(skill.main, edit, locate)
        return Skill.of(changed.front, changed.parts, skill.references), placement
    for reference in skill.references:
        if reference.path == edit.file:
            document = Skill.of("", [Text(reference.text)])
            changed, placement = _apply(document, edit, locate)
            return skill.with_reference(Reference(edit.file, changed.render())), placement
    if not (isinstance(edit, Append) and skill.references and is_reference(edit.file)):
        return skill, Placement(edit, "skipped_unknown_file")
    changed, placement = _apply(Skill(), edit, locate)
    if not placement.applied:
        return skill, placement
    made = skill.with_reference(Reference(edit.file, changed.render()))
    return made, Placement(edit, "applied_append_new_file")


def _apply(skill: Skill, edit: Edit, locate: Locate) -> tuple[Skill, Placement]:
    match edit:
        case Append(content):
            if useless := _useless(skill, content):
                return skill, Placement(edit, useless)
            changed, at_end = _append(skill, content)
            end, before = "applied_append", "applied_append_before_protected_region"
            return changed, Placement(edit, end if at_end else before)
        case InsertAfter():
            return _insert(skill, edit, locate)
        case Replace(target, content):
            return _swap(skill, edit, target, _lines(content, skill.newline), locate)
        case Delete(target):
            return _swap(skill, edit, target, "", locate)
    assert_never(edit)


def _insert(skill: Skill, edit: InsertAfter, locate: Locate) -> tuple[Skill, Placement]:
    if useless := _useless(skill, edit.content):
        return skill, Placement(edit, useless)
    newline = skill.newline
    added = _lines(edit.content, newline)
    place = _find(skill, edit.target, locate)
    if isinstance(place, Region):
        return skill, Placement(edit, "skipped_protected_region")
    if place is None:
        changed, at_end = _append(skill, edit.content)
        end = "applied_insert_after_fallback_append"
        before = "applied_insert_after_fallback_before_protected_region"
        return changed, Placement(edit, end if at_end else before)
    text, found = place.text, place.found
    stop = text.find("\n", found.end)
    if stop < 0:
        closing = newline if place.part + 1 < len(skill.parts) else ""
        new = f"{text}{newline}{added}{closing}"
    else:
        new = f"{text[: stop + 1]}{added}{newline}{text[stop + 1 :]}"
    return _put(skill, place.part, new), Placement(edit, "applied_insert_after", found.how)


def _useless(skill: Skill, content: str) -> Status | None:
    """Why adding this text would change nothing, if so: it is empty, or stands there already."""
    added = {line.strip() for line in _lines(content).splitlines()} - {""}
    if not added:
        return "skipped_empty_content"
    there = {line.strip() for line in skill.body.splitlines()}
    return "skipped_already_present" if added <= there else None


_NO_TARGET: dict[str, Status] = {
    "replace": "skipped_replace_missing_target",
    "delete": "skipped_delete_missing_target",
}
_NOT_FOUND: dict[str, Status] = {
    "replace": "skipped_replace_target_not_found",
    "delete": "skipped_delete_target_not_found",
}
_DONE: dict[str, Status] = {"replace": "applied_replace", "delete": "applied_delete"}


def _swap(
    skill: Skill, edit: Replace | Delete, target: str, content: str, locate: Locate
) -> tuple[Skill, Placement]:
    if not target.strip():
        return skill, Placement(edit, _NO_TARGET[edit.op])
    place = _find(skill, target, locate)
    if isinstance(place, Region):
        return skill, Placement(edit, "skipped_protected_region")
    if place is None:
        return skill, Placement(edit, _NOT_FOUND[edit.op])
    text, (start, end, how) = place.text, place.found
    if content:
        content = _without_second_bullet(text, start, content)
        end += how != "exact" and text[end : end + 1] == content[-1] and content[-1] in ".,;:"
    else:
        start, end = _whole_lines(text, start, end)
    new = f"{text[:start]}{content}{text[end:]}"
    return _put(skill, place.part, new), Placement(edit, _DONE[edit.op], how)


class _Place(NamedTuple):
    part: int
    text: str
    found: Found


def _find(skill: Skill, target: str, locate: Locate) -> _Place | Region | None:
    """The surest place in the body that holds the target, or the region that alone holds it.

    Outer blanks of a target do not count, as those of a content do not: both stay as they stand.
    """
    target = target.strip()
    if not target:
        return None
    places = [
        _Place(index, part.text, found)
        for index, part in enumerate(skill.parts)
        if isinstance(part, Text) and (found := locate(part.text, target))
    ]
    if places:
        order = ("exact", "normalised", "similar")
        return min(places, key=lambda place: order.index(place.found.how))
    for part in skill.parts:
        if isinstance(part, Region) and target in part.render():
            return part
    return None


def _append(skill: Skill, content: str) -> tuple[Skill, bool]:
    """Add text after the last words of the body; say whether it now ends the document."""
    newline = skill.newline
    added = _lines(content, newline)
    worded = [
        index for index, part in enumerate(skill.parts) if isinstance(part, Text) and part.words
    ]
    if not worded:
        alone = not any(isinstance(part, Region) for part in skill.parts)
        first = Text(added + newline * (1 if alone else 2))
        return Skill.of(skill.front, [first, *skill.parts]), alone
    text = skill.parts[worded[-1]].text
    words = text.rstrip()
    listed = bool(_ITEM.match(words.splitlines()[-1]) and _ITEM.match(added))
    gap = newline if listed else newline * 2
    after = text[len(words) :]
    at_end = not any(isinstance(part, Region) for part in skill.parts[worded[-1] + 1 :])
    if not at_end and "\n" not in after:
        after = newline * 2 + after
    return _put(skill, worded[-1], f"{words}{gap}{added}{after}"), at_end


_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]")
_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")


def _lines(content: str, newline: str = "\n") -> str:
    """Content ready to stand in the document: no marks, no outer blanks, its line ending."""
    return scrub(content).strip().replace("\r\n", "\n").replace("\n", newline)


def _without_second_bullet(text: str, start: int, content: str) -> str:
    """Content for a target that was quoted without the bullet before it."""
    head = _ITEM.fullmatch(text, text.rfind("\n", 0, start) + 1, start)
    bullet = _ITEM.match(content)
    return content[bullet.end() :] if head and bullet else content


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """What goes when `text[start:end]` is deleted: whole lines go with indent and line break."""
    line = text.rfind("\n", 0, start) + 1
    stop = _LINE_END.match(text, end)
    return (line, stop.end()) if stop and not text[line:start].strip() else (start, end)


def _put(skill: Skill, index: int, text: str) -> Skill:
    parts = list(skill.parts)
    parts[index] = Text(text)
    return Skill.of(skill.front, parts)


Aim: TypeAlias = Literal[
    "add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify"
]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An instruction to whoever rewrites the body."""

    aim: Aim
    title: str
    instruction: str
    priority: str = ""
    """A hint in the proposer's words: high, medium, low."""
    op: Literal["suggest"] = "suggest"


@dataclass(frozen=True, slots=True)
class Rewrite:
    title: str
    summary: tuple[str, ...]
    """What is different, change by change."""
    body: str
    op: Literal["rewrite"] = "rewrite"


Change: TypeAlias = Edit | Suggestion | Rewrite
