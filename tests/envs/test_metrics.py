from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.envs import metrics

words = st.text(st.sampled_from("aAbBnethx .,-'é\n"), max_size=20)


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str):
    assert metrics.normalise(metrics.normalise(text)) == metrics.normalise(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [("The  Beatles!", "beatles"), ("An apple, a day", "apple day"), ("theatre", "theatre")],
)
def test_normalising_follows_squad(text: str, normal: str):
    assert metrics.normalise(text) == normal


@given(words, words)
def test_f1_is_symmetric_within_bounds_and_full_exactly_for_equal_bags(one: str, other: str):
    value = metrics.f1(one, [other])
    assert value == metrics.f1(other, [one])
    assert 0 <= value <= 1
    if metrics.exact_match(one, [other]):
        assert value == 1


@given(words, st.lists(words, min_size=1, max_size=4))
def test_more_references_never_lower_a_score(prediction: str, golds: list[str]):
    assert metrics.f1(prediction, golds) == max(metrics.f1(prediction, [gold]) for gold in golds)


@pytest.mark.parametrize(
    ("prediction", "golds", "value"),
    [
        ("Tom Clancy", ["tom clancy"], 1.0),
        ("Mr. Tom Clancy", ["Tom Clancy"], 0.8),
        ("red red", ["red"], 2 / 3),
        ("blue", ["red"], 0.0),
        ("blue", ["red", "blue"], 1.0),
        ("", ["red"], 0.0),
        ("", ["red", ""], 1.0),
        ("red", [""], 0.0),
    ],
)
def test_f1_is_the_overlap_of_words(prediction: str, golds: list[str], value: float):
    assert metrics.f1(prediction, golds) == pytest.approx(value)


@pytest.mark.parametrize("gold", ["The The", "A", "?"])
def test_an_empty_answer_does_not_match_a_reference_that_normalises_to_nothing(gold: str):
    for answer in ("", "an"):
        assert not metrics.exact_match(answer, [gold])
        assert metrics.f1(answer, [gold]) == 0
    assert metrics.exact_match(gold.lower(), [gold])


def test_equality_ignores_spaces_and_case_unless_case_matters():
    assert metrics.equal(" New\n york ", ["Boston", "new York"])
    assert not metrics.equal("new york", ["New York"], case_sensitive=True)
    assert metrics.equal("New  York", ["New York"], case_sensitive=True)
    assert not metrics.equal("New York!", ["New York"])


def test_containing_looks_anywhere_in_the_answer():
    assert metrics.contains("It is new\nyork.", ["New York"])
    assert not metrics.contains("It is new york.", ["New York"], case_sensitive=True)
    assert not metrics.contains("York", ["New York"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", "42"),
        ("1,234,567.50", "1234567.5"),
        ("1\u202f234", "1234"),
        ("$1,200", "1200"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("€ 3.50", "3.5"),
        ("12.5%", "12.5"),
        ("\u22127", "-7"),
        ("- 7", "-7"),
        ("1.5e3", "1500"),
        (".5", "0.5"),
        ("3 + 4 = 7 apples.", "7"),
        ("\u20135", "-5"),
        ("Total \u2013 5", "5"),
        ("1 000", "1000"),
        ("12\u2009345.5", "12345.5"),
        ("7/2", "7/2"),
        ("- 7 / 2", "-7/2"),
        ("1 1/2", "3/2"),
        (r"\frac{7}{2}", "7/2"),
        (r"1\dfrac{1}{2}", "3/2"),
        ("9007199254740993", "9007199254740993"),
    ],
)
def test_a_number_is_read_as_people_write_it(text: str, value: str):
    assert metrics.number(text) == Fraction(value)


@pytest.mark.parametrize("text", ["", "none", "$", "1" * 500, "3/0"])
def test_what_is_no_number_is_none(text: str):
    assert metrics.number(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "10:30",
        "2^10",
        "2^{10}",
        "10²",
        "2½",
        "2023-05-03",
        "05/03/2023",
        "3\u20135",
        "1,5",
        "1.2.3",
    ],
)
def test_digits_that_go_on_as_something_else_are_no_number(text: str):
    assert metrics.number(text) is None
    assert not metrics.numeric(text, [text])


@pytest.mark.parametrize("gold", ["2 and 3", "3 of 5", "May 3, 2024", "5-3=2"])
def test_a_reference_with_several_numbers_matches_nothing(gold: str):
    assert metrics.only_number(gold) is None
    assert not metrics.numeric(gold, [gold])


def test_a_huge_exponent_does_not_hang():
    assert metrics.number("1e999999999") is not None


@given(st.integers(), st.integers(1, 1000))
def test_a_number_written_with_separators_is_the_same(value: int, scale: int):
    exact = Fraction(value, 1)
    assert metrics.number(f"{value:,}") == exact
    assert metrics.numeric(f"${value:,}" if value >= 0 else str(value), [str(value)])
    assert not metrics.numeric(str(value + scale), [str(value)])


@pytest.mark.parametrize(
    ("prediction", "gold", "tolerance", "right"),
    [
        ("99", "100", 0.01, True),
        ("98.9", "100", 0.01, False),
        ("-101", "-100", 0.01, True),
        ("0.0001", "0", 0.5, False),
        ("130", "100", 0.3, True),
        ("0.125", "12.5%", 0.0, False),
        ("9007199254740992", "9007199254740993", 0.0, False),
        ("none", "1", 1.0, False),
    ],
)
def test_tolerance_is_a_share_of_the_reference(
    prediction: str, gold: str, tolerance: float, right: bool
):
    assert metrics.numeric(prediction, [gold], tolerance) is right


OPTIONS = ("Paris", "a cat", "B")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("a", "A"),
        ("(B)", "B"),
        ("C.", "C"),
        ("c):", "C"),
        ("PARIS", "A"),
        ("A cat", "B"),
        ("B. a cat", "B"),
        ("A) Paris", "A"),
        ("D", None),
        ("The answer is B", "B"),
        ("Option B", "B"),
        ("Answer: (b).", "B"),
        (r"So the answer is $\boxed{B}$.", "B"),
        (r"\text{B}", "B"),
        ("**B**", "B"),
        ("*B*", "B"),
        ("`B`", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"$\boxed{\text{(B)}}$", "B"),
        (r"\boxed{A} or \boxed{B}", None),
        ("B - a cat", "B"),
        ("(B) \u2013 a cat", "B"),
        ("**B.** a cat", "B"),
        ("B - Paris", None),
        ("A - C", None),
        ("B, since it purrs", "B"),
        ("B, since A is wrong", None),
        ("A is wrong", None),
        ("A dog is shown, so B", None),
        ("B is not right, C is", None),
        ("B or C", None),
        ("A. a cat", None),
        ("The answer is not B", None),
        ("", None),
    ],
)
def test_an_option_is_a_letter_or_a_text_or_both_that_agree(text: str, letter: str | None):
    assert metrics.option(text, OPTIONS) == letter


def test_without_options_any_letter_is_one():
    assert metrics.option("z.") == "Z"
    assert metrics.choice("(d) since it is larger", ["D"])
    assert not metrics.choice("", ["D"])


def test_a_choice_is_right_by_letter_or_text_on_either_side():
    assert metrics.choice("a", ["Paris"], OPTIONS)
    assert metrics.choice("paris", ["A"], OPTIONS)
    assert not metrics.choice("paris", ["B"], OPTIONS)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so\n<answer>one</answer> <ANSWER>\ntwo\n</ANSWER> done", "two"),
        ("<answer>one</answer> then <answer>two", "one"),
        ("<answer>outer <answer>inner</answer></answer>", "inner"),
        ("</answer>x\nlast line  \n\n", "last line"),
        ("<answer></answer>\nlast", ""),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_the_answer_is_the_last_closed_tag_or_the_last_line(text: str, answer: str):
    assert metrics.extract_answer(text) == answer


def test_the_whole_reply_may_be_the_answer():
    assert metrics.extract_answer(" <answer>a</answer>\nb ", "whole") == "<answer>a</answer>\nb"


@given(st.text())
def test_a_tagged_answer_comes_out_as_it_went_in(answer: str):
    if "answer>" not in answer.lower():
        assert metrics.extract_answer(f"x<answer>{answer}</answer>y") == answer.strip()


def test_feedback_names_category_expectation_and_finding():
    def feedback(answer: str, golds: list[str], hard: float, soft: float) -> str:
        return metrics.verdict(answer, golds, hard, soft).feedback

    assert feedback("Y", ["X"], 0, 0) == "wrong answer: expected 'X', got 'Y'"
    assert feedback("Y", ["X", "Z"], 0, 0.5) == "partial answer: expected 'X' or 'Z', got 'Y'"
    assert feedback(" ", ["X"], 0, 0) == "empty answer: expected 'X'"
    assert feedback("Y", [], 0, 0) == "wrong answer: got 'Y'"
    assert feedback("", [], 0, 0) == "empty answer"
    assert feedback("X", ["X"], 1, 1) == "correct"
    assert len(feedback("Y" * 10_000, ["X"], 0, 0)) < 400
