"""Promise: no sequence of changes touches a protected region, or text outside of what it edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.edits import (
    Append,
    Delete,
    Edit,
    InsertAfter,
    Locate,
    Placement,
    Replace,
    apply_edits,
    exactly,
)
from skillopt.core.skill import MAIN, Part, Reference, Region, RegionKind, Skill, Text
from skillopt.optimizer.locate import forgiving

A, NEW = "references/a.md", "references/new.md"
LINES = (
    "# Title",
    "- Write dates as 2024-01-31.",
    "- write DATES as 2024-01-31",
    "- Round amounts up to the next full cent.",
    "Answer with the value only.",
    "  - é ü",
    "keep me",
)
BROKEN = (
    "<!-- SLOW_UPDATE-x-_START -->",
    "<!-- APPENDIX-x-_END -->",
    f"<!-- FILE-x- {A} -->",
    f"<!-- END OF FILE-x- {A} -->",
)
"""What becomes a mark when something is taken out of it."""
MARKS = tuple(each.replace("-x-", "") for each in BROKEN)
BREAK = st.sampled_from(["\n", "\n\n", "\r\n", " ", ""])


def texts(*pieces: str, most: int = 5) -> st.SearchStrategy[str]:
    """Pieces with breaks between them."""
    piece = st.tuples(st.sampled_from(pieces), BREAK).map("".join)
    return st.lists(piece, max_size=most).map("".join)


PLAIN = texts(*LINES, *BROKEN, "-x-", "<!--", " -->")
WRITTEN = texts(*LINES, *BROKEN, *MARKS, "-x-", "---\n", "<!--", " -->")
TARGET = st.one_of(st.sampled_from([*LINES, *BROKEN, *MARKS, "-x-"]), WRITTEN)
FILES = st.sampled_from([MAIN, MAIN, MAIN, A, A, NEW, "references/../b.md"])
EDITS: st.SearchStrategy[Edit] = st.one_of(
    st.builds(Append, WRITTEN, file=FILES),
    st.builds(InsertAfter, TARGET, WRITTEN, file=FILES),
    st.builds(Replace, TARGET, WRITTEN, file=FILES),
    st.builds(Delete, TARGET, file=FILES),
)


@st.composite
def skills(draw: st.DrawFn) -> Skill:
    front = draw(st.sampled_from(["", "---\nname: x\n---\n", "---\r\nname: x\r\n---\r\n"]))
    regions: list[Part] = [
        Region("guidance", draw(PLAIN)),
        Region("notes", draw(PLAIN)),
    ]
    kept = draw(st.permutations(regions))[: draw(st.integers(0, 2))]
    parts: list[Part] = [Text(draw(PLAIN))]
    for region in kept:
        parts += [region, Text(draw(PLAIN))]
    references = [Reference(A, draw(PLAIN))] if draw(st.booleans()) else []
    made = Skill.of(front, parts, references)
    # A body that looks like front matter is front matter.
    return Skill.parse(made.render())


def regions(skill: Skill) -> list[Region]:
    return [part for part in skill.parts if isinstance(part, Region)]


def files(skill: Skill) -> dict[str, Skill]:
    """Each file as a document of its own."""
    others = {each.path: Skill.of("", [Text(each.text)]) for each in skill.references}
    return {MAIN: skill.main, **others}


def reach(document: Skill, edit: Edit, locate: Locate) -> Iterator[tuple[int, int]]:
    """What an edit may change: the lines of its target, or the place behind the last words."""
    start, last = len(document.front), len(document.front)
    for part in document.parts:
        text = part.text if isinstance(part, Text) else part.render()
        if isinstance(part, Text) and part.text.strip():
            last = start + len(text.rstrip())
        target = "" if isinstance(edit, Append) else edit.target.strip()
        if isinstance(part, Text) and target and (found := locate(text, target)):
            first = text.rfind("\n", 0, found.start) + 1
            stop = text.find("\n", found.end) + 1
            yield start + first, start + (stop or len(text))
        start += len(text)
    if isinstance(edit, Append | InsertAfter):
        yield last, last


def fits(before: str, after: str, span: tuple[int, int]) -> bool:
    """Whether only this span is different."""
    low, high = span
    kept = len(before) - (high - low)
    return len(after) >= kept and after.startswith(before[:low]) and after.endswith(before[high:])


def check(before: Skill, after: Skill, edit: Edit, placed: Placement, locate: Locate) -> None:
    old, new = files(before), files(after)
    assert after.front == before.front
    assert regions(after) == regions(before)
    assert Skill.parse(after.render()) == after
    assert set(new) - set(old) <= {edit.file}
    assert all(new[path] == old[path] for path in old if path != edit.file)
    if not placed.applied:
        assert after == before
    elif edit.file in old:
        was, now = old[edit.file].render(), new[edit.file].render()
        assert any(fits(was, now, span) for span in reach(old[edit.file], edit, locate))


@pytest.mark.parametrize("locate", [exactly, forgiving])
@given(skills(), st.lists(EDITS, max_size=4))
def test_an_edit_changes_the_lines_of_its_target_and_nothing_else(
    locate: Locate, skill: Skill, edits: list[Edit]
) -> None:
    for edit in edits:
        changed, (placed,) = apply_edits(skill, [edit], locate)
        check(skill, changed, edit, placed, locate)
        skill = changed


@dataclass(frozen=True, slots=True)
class Way:
    """A way to change a skill that is no edit, and the one thing that it may change."""

    change: Callable[[Skill, str], Skill]
    reaches: RegionKind | Literal["body"]


WAYS = {
    "with_body": Way(Skill.with_body, "body"),
    "with_guidance": Way(Skill.with_guidance, "guidance"),
    "with_notes": Way(lambda skill, text: skill.with_notes(text.splitlines()), "notes"),
}
PIECES = {"with_parts", "with_reference"}
"""What ways are built of."""


def test_every_way_to_change_a_skill_is_checked_here() -> None:
    assert {name for name in dir(Skill) if name.startswith("with_")} == set(WAYS) | PIECES


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@given(skills(), st.lists(WRITTEN, min_size=1, max_size=3))
def test_a_way_to_change_a_skill_changes_its_own_part_and_nothing_else(
    way: Way, skill: Skill, written: list[str]
) -> None:
    changed = skill
    for text in written:
        changed = way.change(changed, text)
        assert Skill.parse(changed.render()) == changed
    assert (changed.front, changed.references) == (skill.front, skill.references)
    assert others(changed, way) == others(skill, way)
    if way.reaches != "body":
        # A region that was not there is set apart by blank lines.
        assert changed.body.startswith(skill.body)
        assert not changed.body[len(skill.body) :].strip()


def others(skill: Skill, way: Way) -> list[Region]:
    return [each for each in regions(skill) if each.kind != way.reaches]
