from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.edits import (
    Append,
    Applied,
    Delete,
    Edit,
    Found,
    InsertAfter,
    Placement,
    Replace,
    apply_edits,
    exactly,
)
from skillopt.core.skill import Region, Skill

GUIDED = (
    "# Title\n\n- one\n- two\n\n<!-- SLOW_UPDATE_START -->\nkeep me\n<!-- SLOW_UPDATE_END -->\n"
)
PIECE = st.lists(
    st.sampled_from(
        ["one", "two", "keep me", "# Title", "\n", " ", "é", "- ", "<!-- SLOW_UPDATE_START -->"]
    ),
    max_size=6,
).map("".join)
EDITS = st.one_of(
    st.builds(Append, PIECE),
    st.builds(InsertAfter, PIECE, PIECE),
    st.builds(Replace, PIECE, PIECE),
    st.builds(Delete, PIECE),
)


@pytest.mark.parametrize(
    ("document", "edit", "result", "status"),
    [
        ("a\nb", Append("c"), "a\nb\n\nc", "applied_append"),
        ("- a\n", Append("- b"), "- a\n- b\n", "applied_append"),
        ("1. a\n\n", Append("2. b"), "1. a\n2. b\n\n", "applied_append"),
        ("", Append("c"), "c\n", "applied_append"),
        ("a\r\nb\r\n", Append("c\nd"), "a\r\nb\r\n\r\nc\r\nd\r\n", "applied_append"),
        ("a\nb", InsertAfter("a", "x"), "a\nx\nb", "applied_insert_after"),
        ("a one\nb", InsertAfter("a", "x"), "a one\nx\nb", "applied_insert_after"),
        ("a\nb", InsertAfter("b", "x"), "a\nb\nx", "applied_insert_after"),
        ("a", InsertAfter("z", "x"), "a\n\nx", "applied_insert_after_fallback_append"),
        ("a\nb\nb", Replace("b", "B"), "a\nB\nb", "applied_replace"),
        ("  a\n  b\n", Replace("  a\n", "  A\n"), "  A\n  b\n", "applied_replace"),
        ("- a\n- b\n", Replace("b", "- B"), "- a\n- B\n", "applied_replace"),
        ("a\nb\nc", Delete("b"), "a\nc", "applied_delete"),
        ("a b c", Delete("b"), "a  c", "applied_delete"),
        ("Wait...", Replace("Wait.", "Stop."), "Stop...", "applied_replace"),
        ("a", Replace("z", "x"), "a", "skipped_replace_target_not_found"),
        ("a", Delete("z"), "a", "skipped_delete_target_not_found"),
        ("a", Replace(" ", "x"), "a", "skipped_replace_missing_target"),
        ("a", Delete(""), "a", "skipped_delete_missing_target"),
        ("a", Replace("a", "a"), "a", "skipped_no_change"),
        ("a", Append("  "), "a", "skipped_empty_content"),
        ("a", InsertAfter("a", " "), "a", "skipped_empty_content"),
        ("- a\n- b\n", Append("- a"), "- a\n- b\n", "skipped_already_present"),
        ("- a\n- b\n", InsertAfter("a", "- b\n"), "- a\n- b\n", "skipped_already_present"),
        ("- a\n- b\n", Append("- a\n\n- b"), "- a\n- b\n", "skipped_already_present"),
        ("- a\n- b\n- c\n", Append("- a\n- b"), "- a\n- b\n- c\n", "skipped_already_present"),
        ("- a\n", Append("- a\n- b"), "- a\n- a\n- b\n", "applied_append"),
        ("- ab\n", Append("- a"), "- ab\n- a\n", "applied_append"),
    ],
)
def test_an_edit_lands_or_says_why_not(document: str, edit: Edit, result: str, status: str) -> None:
    applied = apply_edits(Skill.parse(document), [edit])
    assert applied.skill.render() == result
    assert [placed.status for placed in applied.report] == [status]


@pytest.mark.parametrize(
    ("document", "edit"),
    [
        ("Rank the candidates.", Replace("id", "key")),
        ("Rank the candidates.", Delete("the candid")),
        ("Round to 2.5 kg.", Replace("5 kg", "6 kg")),
        ("Round to 12 digits.", Replace("2 digits", "3 digits")),
        ("Pay 1,000 euros.", Delete("Pay 1")),
        ("You don't guess.", Replace("You don", "You do")),
        ("You don\u2019t guess.", Delete("t guess")),
        ("Schreibe Größe auf.", Replace("Gr", "Kl")),
    ],
)
def test_an_edit_does_not_cut_through_a_word_or_a_number(document: str, edit: Edit) -> None:
    applied = apply_edits(Skill.parse(document), [edit])
    assert applied.skill.render() == document
    assert applied.report[0].status.endswith("_target_not_found")


@pytest.mark.parametrize(
    ("document", "edit", "result"),
    [
        ("candidates have an id", Replace("id", "key"), "candidates have an key"),
        ("1.5 and 5", Replace("5", "6"), "1.5 and 6"),
        ("Use `id_x`.", Replace("`id_x`", "`key`"), "Use `key`."),
        ("upper-case only", Replace("case", "letters"), "upper-letters only"),
        ("日付は西暦で書く", Replace("西暦", "和暦"), "日付は和暦で書く"),
        ("Sum: 5. Then stop", Replace("5", "6"), "Sum: 6. Then stop"),
    ],
)
def test_an_edit_takes_the_first_place_that_is_a_whole_word(
    document: str, edit: Edit, result: str
) -> None:
    assert apply_edits(Skill.parse(document), [edit]).skill.render() == result


@given(st.text(alphabet="ab1.,' -\n", max_size=30), st.text(alphabet="ab1.,' -", min_size=1))
def test_what_is_found_exactly_is_never_part_of_a_longer_word(text: str, target: str) -> None:
    if found := exactly(text, target):
        assert text[found.start : found.end] == target
        before, after = text[: found.start], text[found.end :]
        assert not (before[-1:].isalnum() and target[:1].isalnum())
        assert not (target[-1:].isalnum() and after[:1].isalnum())


@pytest.mark.parametrize(
    ("first", "second"),
    [("similar", "exact"), ("normalised", "exact"), ("similar", "normalised")],
)
def test_the_surest_place_is_taken_not_the_first(
    first: Literal["normalised", "similar"], second: Literal["exact", "normalised"]
) -> None:
    region = Region("guidance", "\ng\n").render()

    def locate(text: str, target: str) -> Found | None:
        """The second text has a surer place than the first one."""
        if (found := exactly(text, target)) is not None:
            return Found(found.start, found.end, second)
        return Found(0, 1, first)

    document = Skill.parse(f"x\n\n{region}\nrule\n")
    applied = apply_edits(document, [Replace("rule", "new")], locate)
    assert applied.skill.render() == f"x\n\n{region}\nnew\n"
    applied = apply_edits(Skill.parse(f"rule\n\n{region}\nx\n"), [Replace("rule", "new")], locate)
    assert applied.skill.render() == f"new\n\n{region}\nx\n"


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (Append("- three"), "applied_append_before_protected_region"),
        (InsertAfter("nowhere", "x"), "applied_insert_after_fallback_before_protected_region"),
        (InsertAfter("keep me", "x"), "skipped_protected_region"),
        (Replace("keep me", "x"), "skipped_protected_region"),
        (Delete("<!-- SLOW_UPDATE_START -->"), "skipped_protected_region"),
    ],
)
def test_a_region_is_out_of_reach(edit: Edit, status: str) -> None:
    applied = apply_edits(Skill.parse(GUIDED), [edit])
    assert applied.report[0].status == status
    assert applied.skill.guidance == "keep me"


def test_text_is_added_before_a_closing_region() -> None:
    applied = apply_edits(Skill.parse(GUIDED), [Append("- three")])
    assert "- two\n- three\n\n<!-- SLOW_UPDATE_START -->" in applied.skill.render()


def test_text_is_added_before_a_region_that_is_all_there_is() -> None:
    region = Region("guidance", "\ng\n").render()
    assert apply_edits(Skill.parse(region), [Append("a")]).skill.render() == f"a\n\n{region}"
    glued = apply_edits(Skill.parse(f"a{region}"), [Append("b")]).skill.render()
    assert glued == f"a\n\nb\n\n{region}"
    inserted = apply_edits(Skill.parse(f"a{region}"), [InsertAfter("a", "b")]).skill.render()
    assert inserted == f"a\nb\n{region}"


@given(st.lists(EDITS, max_size=5))
def test_no_edits_change_a_region_or_smuggle_in_a_mark(edits: list[Edit]) -> None:
    applied = apply_edits(Skill.parse(GUIDED), edits)
    document = applied.skill.render()
    assert applied.skill.guidance == "keep me"
    assert document.count("<!-- SLOW_UPDATE_START -->") == 1
    assert Skill.parse(document) == applied.skill
    assert len(applied.report) == len(edits)


@given(PIECE, st.text(max_size=20), st.text(max_size=20))
def test_text_outside_the_edited_span_survives(content: str, before: str, after: str) -> None:
    document = f"{before}\nthe one place\n{after}"
    edit = Replace("the one place", f"x{content}x")
    changed = apply_edits(Skill.parse(document), [edit]).skill.render()
    assert changed.startswith(f"{before}\nx")
    assert changed.endswith(f"x\n{after}")


def test_edits_see_what_earlier_edits_wrote() -> None:
    applied = apply_edits(Skill.parse("a"), [Append("- new rule"), Replace("new rule", "rule")])
    assert applied.skill.render() == "a\n\n- rule"


@pytest.mark.parametrize("how", ["exact", "normalised", "similar"])
def test_the_report_tells_how_sure_the_place_of_an_edit_is(
    how: Literal["exact", "normalised", "similar"],
) -> None:
    def locate(text: str, target: str) -> Found | None:
        at = text.find(target)
        return Found(at, at + len(target), how) if at >= 0 else None

    edits: list[Edit] = [InsertAfter("one", "- new"), Replace("two", "three"), Delete("- one")]
    found = apply_edits(Skill.parse("- one\n- two\n"), edits, locate)
    assert found == Applied(
        Skill.parse("- new\n- three\n"),
        (
            Placement(edits[0], "applied_insert_after", how),
            Placement(edits[1], "applied_replace", how),
            Placement(edits[2], "applied_delete", how),
        ),
    )
    lost = apply_edits(Skill.parse("x"), edits, locate)
    assert [placed.how for placed in lost.report] == ["exact"] * 3
