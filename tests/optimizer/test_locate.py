from __future__ import annotations

import random

import pytest

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
