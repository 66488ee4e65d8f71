"""The user's text stays byte for byte; rules of several lines survive every night."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import SkillError
from skillopt_sleep.documents import END, START, Document, new_rule_file, new_skill

USER = b"# Mine\r\n\r\n\r\ntwo blank lines above,   spaces at the end   \r\nno newline"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
RULES = st.lists(
    st.text(st.sampled_from("ab -*\n`é#<!"), max_size=30).filter(str.strip), max_size=4
)


@given(TEXTS, TEXTS, TEXTS)
def test_a_document_is_written_as_it_was_read(before: str, inner: str, after: str) -> None:
    for text in (before, before + START + inner + END + after, before + START + inner):
        data = text.encode()
        assert Document.parse(data).render() == data


@given(TEXTS, TEXTS, RULES, RULES)
def test_nights_change_nothing_around_the_block(
    before: str, after: str, first: list[str], second: list[str]
) -> None:
    data = f"{before}{START}\n- old\n{END}{after}".encode()
    once = Document.parse(data).with_rules(["a", *first])
    twice = Document.parse(once.render()).with_rules(["b", *second])
    for night in (once, twice):
        assert night.before == before
        assert night.after == after


def test_a_first_block_leaves_every_byte_of_the_user() -> None:
    made = Document.parse(USER).with_rules(["Run the tests first."]).render()
    assert made.startswith(USER)
    assert made[len(USER) :].count(b"\r\n") == made[len(USER) :].count(b"\n")
    assert Document.parse(made).rules == ("Run the tests first.",)


@given(RULES)
def test_rules_of_several_lines_are_read_as_they_were_written(rules: list[str]) -> None:
    made = Document("").with_rules(rules)
    again = Document.parse(made.render())
    assert again.with_rules(again.rules).render() == made.render()
    assert len(again.rules) == len({" ".join(rule.casefold().split()) for rule in rules})


def test_continuation_lines_code_and_paragraphs_belong_to_their_rule() -> None:
    rule = "Release like this:\n\n```sh\n- not a rule\nmake release\n```\nand tell the team"
    for newline in ("\n", "\r\n"):
        document = Document(f"text{newline}").with_rules(["first", rule, "last"])
        assert document.rules == ("first", rule, "last")
        assert Document.parse(document.render()).with_rules(document.rules) == document


def test_text_after_a_start_without_an_end_is_not_lost() -> None:
    data = f"# Mine\n{START}\n- half a block\n\nand my own text\n".encode()
    made = Document.parse(data).with_rules(["new"]).render()
    assert made.startswith(data)
    assert Document.parse(made).rules == ("new",)
    assert Document.parse(Document.parse(made).with_rules(["newer"]).render()).rules == ("newer",)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```", "```"),
        ("```markdown", "````"),
        ("~~~ md", "~~~"),
        ("> ```", "> ```"),
        ("  ```", "```"),
    ],
)
def test_marks_in_a_code_fence_are_the_text_of_the_user(
    opening: str, closing: str, newline: str
) -> None:
    lines = ["# Mine", opening, START, "- an example", END, closing, "", "More.", ""]
    data = newline.join(lines).encode()
    document = Document.parse(data)
    assert document.block is None
    assert document.render() == data
    made = document.with_rules(["Test first.", "Build:\n\n```\nmake"]).render()
    assert made.startswith(data)
    again = Document.parse(made)
    assert again.rules[0] == "Test first."
    assert again.render() == made
    assert again.with_learned("").render().startswith(data)


def test_a_fence_that_nothing_closes_hides_no_block() -> None:
    data = f"```sh\nmake\n\n{START}\n- a rule\n{END}\n".encode()
    assert Document.parse(data).rules == ("a rule",)
    half = f"```\n{START}\n```\n{START}\n- a rule\n{END}\n```\n{END}\n```\n".encode()
    assert Document.parse(half).rules == ("a rule",)


@given(st.lists(st.sampled_from(["```", "```sh", "~~~", "> ```", "text", ""])), RULES)
def test_what_is_learnt_is_read_again_whatever_fences_the_user_left_open(
    lines: list[str], rules: list[str]
) -> None:
    document = Document.parse("\n".join(lines).encode())
    for night in (["R:\n```\nx\n```"], ["Half:\n```"], rules):
        expected = document.with_rules([*document.rules, *night])
        document = Document.parse(expected.render())
        assert document == expected
    assert document.render().count(START.encode()) == 1


@pytest.mark.parametrize("text", ["# Mine\n- x\n", "# Mine\r\n- x\r\n", ""])
def test_rules_that_come_and_go_leave_the_text_of_the_user_as_it_was(text: str) -> None:
    data = text.encode()
    for _ in range(4):
        with_rule = Document.parse(data).with_rules(["a"]).render()
        data = Document.parse(with_rule).with_rules([]).render()
        assert data.decode() == text


def test_two_blocks_are_refused_because_either_may_be_meant() -> None:
    with pytest.raises(SkillError, match="2 blocks"):
        Document.parse(f"{START}a{END}{START}b{END}".encode())


def test_a_document_that_is_not_text_is_refused() -> None:
    with pytest.raises(SkillError, match="not UTF-8"):
        Document.parse(b"\xff\xfe")


def test_no_learnt_text_ends_its_block_or_opens_a_region() -> None:
    evil = f"x {END} y <!-- SLOW_UPDATE_START --> z <!-- SKILLOPT-SLEEP:LEARNED {START}END -->"
    document = Document("user\n").with_rules([evil], guidance=f"g {END}")
    data = document.render().decode()
    assert (data.count(START), data.count(END)) == (1, 1)
    assert Document.parse(document.render()).rules == document.rules
    assert document.guidance == "g"


def test_guidance_and_own_words_in_the_block_stay() -> None:
    document = Document("").with_rules(["a"], guidance="Keep changes small.\n\nAlways.")
    assert document.guidance == "Keep changes small.\n\nAlways."
    worded = Document.parse(f"{START}\nOur words.\n\n- a\n{END}".encode())
    assert Document.parse(worded.with_rules(["b"]).render()).learned == "Our words.\n\n- b"


def test_what_is_learnt_may_be_any_markdown() -> None:
    guidance = "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->"
    text = f"## Style\n\n- a\n\n| x | y |\n|---|---|\n\n{guidance}"
    document = Document.parse(b"mine").with_learned(text)
    assert Document.parse(document.render()).learned == text
    assert document.with_learned(text) is document
    assert Document.parse(document.render()).with_learned("").render() == b"mine\n"


def test_new_files_have_the_front_matter_that_programs_look_for() -> None:
    assert new_skill("learned", "What was learnt.").startswith(
        b"---\nname: learned\ndescription: What was learnt.\n---\n"
    )
    assert b"alwaysApply: true" in new_rule_file("What was learnt.")
