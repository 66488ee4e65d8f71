from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.skill import Region, Skill, scrub, without_file_marks
from skillopt.errors import SkillError


def joined(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=12).map("".join)


WORDS = joined("a", "é", " ", "\n", "\r\n", "-", "#", "---", "<!--", "-->", "\t")
REGION = st.builds(Region, st.sampled_from(["guidance", "notes"]), WORDS)


@st.composite
def documents(draw: st.DrawFn) -> str:
    front = draw(st.sampled_from(["", "---\nname: x\n---\n", "---\r\na: b\r\n---\r\n"]))
    guidance = draw(st.sampled_from(["", Region("guidance", draw(WORDS)).render()]))
    notes = draw(st.sampled_from(["", Region("notes", draw(WORDS)).render()]))
    first, second = draw(st.permutations([guidance, notes]))
    return front + draw(WORDS) + first + draw(WORDS) + second + draw(WORDS)


@given(documents())
def test_a_document_survives_reading_and_writing_byte_for_byte(document: str) -> None:
    skill = Skill.parse(document)
    assert skill.render() == document
    assert Skill.parse(skill.render()) == skill


@given(documents(), st.text(max_size=40))
def test_guidance_goes_into_its_region_and_nowhere_else(document: str, guidance: str) -> None:
    before = Skill.parse(document)
    after = before.with_guidance(guidance)
    assert after.guidance == scrub(guidance).strip()
    assert Skill.parse(after.render()) == after
    assert (after.front, after.body.strip()) == (before.front, before.body.strip())


def test_regions_and_front_matter_are_told_apart() -> None:
    skill = Skill.parse(
        "---\nname: x\n---\n# Body\n<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\ntail\n"
    )
    assert skill.front == "---\nname: x\n---\n"
    assert skill.guidance == "g"
    assert skill.body == "# Body\n\ntail\n"


def test_new_guidance_stands_apart_at_the_end() -> None:
    assert Skill.parse("a").with_guidance("g").render() == (
        "a\n\n<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\n"
    )


@pytest.mark.parametrize(
    "document",
    [
        "a <!-- SLOW_UPDATE_START --> b",
        "a <!-- SLOW_UPDATE_END --> b",
        "<!-- SLOW_UPDATE_START --><!-- APPENDIX_END -->",
        "<!-- SLOW_UPDATE_START --><!-- APPENDIX_START --><!-- SLOW_UPDATE_END -->",
        "<!-- APPENDIX_START --><!-- APPENDIX_END -->" * 2,
    ],
)
def test_a_document_with_stray_or_repeated_marks_is_refused(document: str) -> None:
    with pytest.raises(SkillError, match=r"region"):
        Skill.parse(document)


@given(joined("<!-- ", "SLOW_UPDATE_START", "SLOW_UPDATE_END", " -->", "x"))
def test_scrubbed_text_holds_no_mark_however_it_is_nested(text: str) -> None:
    assert "<!-- SLOW_UPDATE_START -->" not in scrub(text)
    assert "<!-- SLOW_UPDATE_END -->" not in scrub(text)


def test_the_digest_names_the_exact_text() -> None:
    assert Skill.parse("a").digest == Skill.parse("a").digest
    assert Skill.parse("a").digest != Skill.parse("a\n").digest


@given(documents(), st.lists(st.text(max_size=20), max_size=4))
def test_notes_go_into_their_region_and_nowhere_else(document: str, notes: list[str]) -> None:
    before = Skill.parse(document)
    after = before.with_notes(notes)
    assert after.notes == tuple(said for each in notes if (said := " ".join(scrub(each).split())))
    assert Skill.parse(after.render()) == after
    assert (after.front, after.body.strip()) == (before.front, before.body.strip())
    assert after.guidance == before.guidance
    assert after.with_notes(notes) == after


def test_an_appendix_starts_with_a_heading_and_keeps_what_a_person_wrote_in_it() -> None:
    skill = Skill.parse("a\n").with_notes(["Mind the rule."])
    assert skill.render() == (
        "a\n\n<!-- APPENDIX_START -->\n## Execution Notes Appendix\n\n- Mind the rule.\n"
        "<!-- APPENDIX_END -->\n"
    )
    kept = "<!-- APPENDIX_START -->\nOurs:\n* one\n  and more\n<!-- APPENDIX_END -->"
    assert Skill.parse(kept).notes == ("one and more",)
    assert Skill.parse(kept).with_notes(["two"]).render() == (
        "<!-- APPENDIX_START -->\nOurs:\n\n- two\n<!-- APPENDIX_END -->"
    )


def test_a_skill_without_notes_that_is_given_none_stays_as_it_is() -> None:
    assert Skill.parse("a").with_notes([" "]) == Skill.parse("a")


@given(documents(), WORDS)
def test_another_body_stands_between_the_same_front_matter_and_the_same_regions(
    document: str, body: str
) -> None:
    skill = Skill.parse(document)
    made = skill.with_body(body)
    assert Skill.parse(made.render()) == made
    assert (made.guidance, made.notes) == (skill.guidance, skill.notes)
    assert made.front.strip() == skill.front.strip()


def test_a_body_that_looks_like_front_matter_is_none() -> None:
    made = Skill.parse("old\n").with_body("---\nname: x\n---\nnew")
    assert (made.front, made.body) == ("", "\n---\nname: x\n---\nnew\n")
    kept = Skill.parse("---\nname: x\n---").with_body("new")
    assert kept.render() == "---\nname: x\n---\nnew\n"


GUIDED = "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->"


@pytest.mark.parametrize(
    ("document", "written"),
    [
        ("old", "new\nlines"),
        ("\n old \n\n", "\n new\nlines \n\n"),
        ("", "new\nlines\n"),
        ("old\r\n", "new\r\nlines\r\n"),
        ("---\na: b\n---", "---\na: b\n---\nnew\nlines\n"),
        (GUIDED, f"new\nlines\n\n{GUIDED}"),
        (f"old {GUIDED}", f"new\nlines\n\n{GUIDED}"),
        (f"old\n{GUIDED}\nmore", f"new\nlines\n{GUIDED}\n"),
        (f"{GUIDED} old", f"{GUIDED} new\nlines"),
        (
            f"old\n{GUIDED} more <!-- APPENDIX_START -->n<!-- APPENDIX_END --> tail",
            f"new\nlines\n{GUIDED}\n\n<!-- APPENDIX_START -->n<!-- APPENDIX_END -->\n",
        ),
    ],
)
def test_another_body_stands_where_the_words_of_the_old_one_began(
    document: str, written: str
) -> None:
    for body in ("new\nlines", "\nnew\r\nlines\n"):
        assert Skill.parse(document).with_body(body).render() == written


@pytest.mark.parametrize(
    ("document", "gap"), [("", ""), ("a", "\n\n"), ("a\n", "\n"), ("a\n\n", ""), ("a\r\n", "\n")]
)
def test_a_new_region_stands_one_line_apart_at_the_end(document: str, gap: str) -> None:
    made = Skill.parse(document).with_guidance("g").render()
    assert made == f"{document}{gap}{GUIDED}\n"


def test_file_marks_are_taken_out_without_a_trace() -> None:
    text = "a<!-- FILE references/a.md -->b<!-- END OF FILE references/a.md -->c"
    assert without_file_marks(text) == "abc"
