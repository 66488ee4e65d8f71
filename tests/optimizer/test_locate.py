from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.optimizer.locate import forgiving

TEXT = """# Answers

- Write every date as YYYY-MM-DD, never with words.
- Round amounts to whole cents; drop the currency sign.
- Names are written LAST, First.
- If two offices fit, take the one whose code comes first.

## Style

Keep the answer on one line, without quotes.
"""


@pytest.mark.parametrize(
    ("target", "found", "how"),
    [
        ("Names are written LAST, First.", "Names are written LAST, First.", "exact"),
        ("names are written last first", "Names are written LAST, First", "normalised"),
        ("* Names are written LAST First!", "- Names are written LAST, First.", "normalised"),
        (
            "- Write every date as YYYY-MM-DD, never with any words.",
            "- Write every date as YYYY-MM-DD, never with words.",
            "similar",
        ),
        (
            "- Names are writen LAST, First.\n- If two ofices fit, take that whose code is first.",
            "- Names are written LAST, First.\n"
            "- If two offices fit, take the one whose code comes first.",
            "similar",
        ),
    ],
)
def test_a_target_is_found_although_it_is_not_quoted_to_the_letter(
    target: str, found: str, how: str
) -> None:
    place = forgiving(TEXT, target)
    assert place is not None
    assert (TEXT[place.start : place.end], place.how) == (found, how)


@pytest.mark.parametrize(
    "target",
    ["Write phone numbers with a country code.", "...", "Answer in French.", "the", "- x"],
)
def test_what_is_not_there_is_not_found(target: str) -> None:
    place = forgiving(TEXT.replace("the", "the other the"), target)
    assert place is None or TEXT.replace("the", "the other the")[place.start : place.end] == target


@pytest.mark.parametrize(
    ("rule", "target"),
    [
        ("- Always answer in upper case.", "- Never answer in upper case."),
        ("- Never answer in upper case.", "Answer in upper case."),
        ("- Do not quote the source in the answer.", "- Do quote the source in the answer."),
        ("- Don't quote the source in the answer.", "- Do quote the source in the answer."),
        ("- Answer without a unit, on one line.", "- Answer with a unit, on one line."),
        ("- Round all amounts to 2 decimals.", "- Round all amounts to 3 decimals."),
        ("- Round all amounts to 2.5 units.", "round all amounts to 2,5 units"),
        ("- Name at most two offices in the answer.", "- Name at most ten offices in the answer."),
        ("- Use words, except for the long dates.", "- Use words, even for the long dates."),
        ("- Write all of the names in upper case.", "- Write all of the names in lower case."),
        ("- Take the first date of the document.", "- Take the last date of the document."),
        ("- Write words only with small letters.", "- Write words with small letters."),
        ("- Cool it to -5 degrees, then wait.", "cool it to 5 degrees, then wait"),
    ],
)
def test_a_rule_that_says_something_else_is_not_found(rule: str, target: str) -> None:
    assert forgiving(f"# Rules\n\n{rule}\n", target) is None


@pytest.mark.parametrize(
    ("rule", "target"),
    [
        ("- Do not quote the source.", "- Don't quote the source."),
        ("- Don\u2019t quote the source.", "- Don't quote the source."),
        ("3. Round amounts to 2 decimals.", "2. Round the amounts to two decimals."),
        ("- Never answer in upper case.", "- Never answer in uppper case."),
        ("- Write a date as YYYY-MM-DD, never with words.", "write a date as yyyy-mm-dd"),
    ],
)
def test_a_rule_that_says_the_same_is_found(rule: str, target: str) -> None:
    assert forgiving(f"# Rules\n\n{rule}\n", target) is not None


def test_the_opposite_rule_does_not_hide_the_right_one() -> None:
    text = "- Always answer in upper case.\n- Never answer in upper case.\n"
    place = forgiving(text, "- Never answer in the upper case.")
    assert place is not None
    assert text[place.start : place.end] == "- Never answer in upper case."


def test_negations_are_compared_line_by_line() -> None:
    text = "- Never quote the source.\n\n- Round the amounts up.\n"
    assert forgiving(text, "- Quote the source.\n\n- Never round the amounts up.") is None
    assert forgiving(text, "- Never quote a source.\n\n- Round the amounts up.") is not None


@given(
    st.sampled_from(["Never", "Always", "Do not", "Only", "Please"]),
    st.sampled_from(["Never", "Always", "Do not", "Only", "Please"]),
    st.integers(0, 99),
    st.integers(0, 99),
)
def test_a_fuzzy_match_agrees_on_negations_and_numbers(
    there: str, quoted: str, number: int, wanted: int
) -> None:
    text = f"- {there} give the amount in the table with {number} decimals.\n"
    target = f"- {quoted} give the amounts in the table with {wanted} decimals."
    same = {"Never": "Do not"}.get(there, there) == {"Never": "Do not"}.get(quoted, quoted)
    if forgiving(text, target):
        assert same
        assert number == wanted


def test_of_two_similar_places_neither_is_taken() -> None:
    twins = "- Write the start date as ISO.\n- Write the stop date as ISO.\n"
    assert forgiving(twins, "- Write the step date as ISO.") is None


def test_damaged_quotes_are_found_in_the_right_place_or_not_at_all() -> None:
    lines = [line for line in TEXT.splitlines() if len(line) > 20]
    rng = random.Random(1)
    hits = 0
    for _ in range(300):
        line = rng.choice(lines)
        damaged = list(line)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.choice("abc .,-")
        place = forgiving(TEXT, "".join(damaged).strip())
        if place:
            hits += 1
            assert TEXT[place.start : place.end].strip(" -.") in line
    assert hits > 240
