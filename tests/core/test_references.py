from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.edits import Append, Delete, Edit, InsertAfter, Replace, apply_edits
from skillopt.core.skill import MAIN, MOST, Reference, Region, Skill, Text
from skillopt.errors import SkillError

A, B, NEW = "references/a.md", "references/b.md", "references/new.md"
WORDS = st.lists(
    st.sampled_from(["one", "two", "é", " ", "\n", "\r\n", "- ", "---\n", "<!--", " -->"]),
    max_size=8,
).map("".join)
MARKS = (
    f"<!-- FILE {A} -->",
    f"<!-- END OF FILE {A} -->",
    "<!-- FI",
    f"LE {A} -->",
    "<!-- SLOW_UPDATE_START -->",
    "<!-- SLOW_UPDATEone_END -->",
)
PIECE = st.lists(
    st.sampled_from(["one", "two", "keep me", "# Title", "\n", " ", "é", "- ", "---", *MARKS]),
    max_size=6,
).map("".join)
FILE = st.sampled_from([MAIN, A, B, NEW, "references/../x.md", "/etc/passwd", ""])
EDIT = st.one_of(
    st.builds(Append, PIECE, file=FILE),
    st.builds(InsertAfter, PIECE, PIECE, file=FILE),
    st.builds(Replace, PIECE, PIECE, file=FILE),
    st.builds(Delete, PIECE, file=FILE),
)
OFFICE = Skill.of(
    "---\nname: office\n---\n",
    [Text("# Title\n\n- one\n\n"), Region("guidance", "\nkeep me\n"), Text("\n")],
    [Reference(A, "---\ntitle: a\n---\n- one\n- two"), Reference(B, "two\r\nkeep me\r\n")],
)


@st.composite
def packages(draw: st.DrawFn) -> Skill:
    paths = draw(st.lists(st.sampled_from([A, B, NEW]), unique=True))
    references = [Reference(path, draw(WORDS)) for path in paths]
    document = Skill.parse("---\nname: x\n---\n" + draw(WORDS))
    return Skill.of(document.front, document.parts, references)


def files(skill: Skill) -> dict[str, str]:
    return {MAIN: skill.main.render(), **{each.path: each.text for each in skill.references}}


@given(packages())
def test_one_text_holds_a_package_byte_for_byte(skill: Skill) -> None:
    assert Skill.parse(skill.render()) == skill
    assert Skill.parse(skill.render()).render() == skill.render()


@given(packages(), packages())
def test_digests_differ_exactly_if_a_file_differs(one: Skill, other: Skill) -> None:
    assert (one.digest == other.digest) == (files(one) == files(other))


@given(st.lists(EDIT, max_size=5))
def test_edits_change_their_own_file_and_no_region_front_matter_or_mark(edits: list[Edit]) -> None:
    skill = OFFICE
    for edit in edits:
        changed, (placed,) = apply_edits(skill, [edit])
        before, after = files(skill), files(changed)
        touched = {path for path in after if before.get(path) != after[path]}
        assert touched == ({edit.file} if placed.applied else set())
        assert before.keys() <= after.keys() <= {MAIN, A, B, NEW}
        assert (changed.front, changed.guidance) == (OFFICE.front, "keep me")
        assert Skill.parse(changed.render()) == changed
        skill = changed


@given(packages(), WORDS)
def test_guidance_goes_into_the_document_and_leaves_references_alone(
    skill: Skill, guidance: str
) -> None:
    after = skill.with_guidance(guidance)
    assert after.references == skill.references
    assert after.main == skill.main.with_guidance(guidance)
    assert Skill.parse(after.render()) == after


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (Append("- three", file=A), "applied_append"),
        (Replace("- one", "- 1", file=A), "applied_replace"),
        (Replace("- one", "- 1", file=B), "skipped_replace_target_not_found"),
        (Append("- three", file=NEW), "applied_append_new_file"),
        (Append("  ", file=NEW), "skipped_empty_content"),
        (InsertAfter("- one", "- x", file=NEW), "skipped_unknown_file"),
        (Append("- three", file="references/sub/c.md"), "skipped_unknown_file"),
        (Append("- three", file="../SKILL.md"), "skipped_unknown_file"),
        (Append("- three", file="references/A.md"), "skipped_protected_region"),
    ],
)
def test_an_edit_lands_in_its_file_or_says_why_not(edit: Edit, status: str) -> None:
    assert apply_edits(OFFICE, [edit]).report[0].status == status


def test_a_reference_keeps_its_own_line_endings_and_need_not_end_with_one() -> None:
    edits = [Append("- three", file=A), Append("x\ny", file=B)]
    after = files(apply_edits(OFFICE, edits).skill)
    assert after[A] == "---\ntitle: a\n---\n- one\n- two\n- three"
    assert after[B] == "two\r\nkeep me\r\n\r\nx\r\ny\r\n"


def test_a_single_document_never_becomes_a_package_by_an_edit() -> None:
    applied = apply_edits(Skill.parse("a\n"), [Append("- b", file=NEW)])
    assert applied.skill == Skill.parse("a\n")
    assert applied.report[0].status == "skipped_unknown_file"


@pytest.mark.parametrize(
    ("document", "edit"),
    [
        ("", Append("---\na: b\n---")),
        ("--\na: b\n---\n", Replace("--", "---")),
        ("<!-one- APPENDIX_START -->\n", Delete("one")),
        (f"<!-one- FILE {A} -->\n", Delete("one")),
    ],
)
def test_an_edit_that_would_make_front_matter_or_a_mark_is_not_made(
    document: str, edit: Edit
) -> None:
    applied = apply_edits(Skill.parse(document), [edit])
    assert applied.skill.render() == document
    assert applied.report[0].status == "skipped_protected_region"


@pytest.mark.parametrize(
    "path",
    [
        "references/../a.md",
        "references/sub/a.md",
        "references/.a.md",
        "references/a.txt",
        "references/a b.md",
        "references/a\n.md",
        "references/é.md",
        "/references/a.md",
        "a.md",
        MAIN,
        "",
    ],
)
def test_no_reference_has_a_path_that_leads_elsewhere(path: str) -> None:
    with pytest.raises(SkillError, match=r"no file of a skill package"):
        Reference(path, "")


@pytest.mark.parametrize(
    ("whole", "complaint"),
    [
        (f"a\n<!-- FILE {A} -->\nb\n", "stray file mark"),
        (f"a <!-- END OF FILE {A} -->", "stray file mark"),
        (f"\n<!-- FILE {A} -->\nb\n<!-- END OF FILE {B} -->\n", "stray file mark"),
        (Reference(A, "b").render() + "c", "in no file"),
        (Reference(B, "b").render() + Reference(A, "b").render(), "alphabetical"),
        (Reference(A, "b").render() * 2, "must differ"),
        (Reference(A, "<!-- APPENDIX_START -->").render(), "only SKILL.md"),
    ],
)
def test_a_text_whose_files_cannot_be_told_apart_is_refused(whole: str, complaint: str) -> None:
    with pytest.raises(SkillError, match=complaint):
        Skill.parse(whole)


def test_files_that_differ_in_capitals_only_and_too_many_files_are_refused() -> None:
    with pytest.raises(SkillError, match="must differ"):
        Skill.of("", [], [Reference(A, ""), Reference("references/A.md", "")])
    many = [Reference(f"references/{n}.md", "") for n in range(MOST + 1)]
    with pytest.raises(SkillError, match=f"at most {MOST}"):
        Skill.of("", [], many)
    full = Skill.of("", [Text("a")], many[:MOST])
    assert not apply_edits(full, [Append("x", file=NEW)]).report[0].applied
