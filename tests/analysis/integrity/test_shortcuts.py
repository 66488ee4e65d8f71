from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_items import asked, choice, prose

from skillopt.analysis.integrity.findings import CheckFinding, Item, Verdict, balance, drawn, luck
from skillopt.analysis.integrity.shortcuts import shortcuts
from skillopt.core.task import Gold

TELL = "but a stronger result holds"


def fair(count: int, seed: int = 0) -> list[Item]:
    chance = random.Random(seed)
    return [
        choice(f"i{n}", [prose(chance, 6) for _ in range(4)], chance.randrange(4))
        for n in range(count)
    ]


def told(
    items: list[Item], phrase: str, *, precision: float = 1.0, share: float = 0.5
) -> list[Item]:
    """The same items, some of them with a phrase that marks the right option."""
    chance = random.Random(1)
    found: list[Item] = []
    for item in items:
        gold = item.gold
        assert gold is not None
        assert gold.right is not None
        options = list(gold.options)
        if chance.random() < share:
            right = chance.random() < precision
            options[gold.right if right else (gold.right + 1) % 4] += f" {phrase}"
        found.append(choice(item.id, options, gold.right))
    return found


def balanced(items: list[Item]) -> CheckFinding:
    return balance([item.gold for item in items if item.gold is not None])


@pytest.mark.parametrize("seed", range(5))
def test_fair_options_raise_no_alarm(seed: int) -> None:
    assert shortcuts(fair(120, seed)).verdict == "ok"
    assert balanced(fair(120, seed)).verdict == "ok"


def test_a_phrase_that_marks_the_right_option_is_bad_and_quoted() -> None:
    found = shortcuts(told(fair(60), TELL))
    assert found.verdict == "bad"
    assert TELL in found.found
    assert "alone scores" in found.found


def test_a_phrase_that_is_in_right_and_wrong_options_alike_is_nothing() -> None:
    assert shortcuts(told(fair(120), TELL, precision=0.25, share=1)).verdict == "ok"


def test_a_phrase_that_is_mostly_right_is_worth_a_look() -> None:
    assert shortcuts(told(fair(200), TELL, precision=0.85)).verdict == "look"


def test_a_right_option_that_is_always_the_longest_is_bad() -> None:
    found = shortcuts(told(fair(60), "x" * 60, share=1))
    assert found.verdict == "bad"


def test_a_right_option_that_always_stands_first_is_bad_twice() -> None:
    items = [choice(item.id, item.gold.options, 0) for item in fair(40) if item.gold]
    assert shortcuts(items).verdict == "bad"
    found = balanced(items)
    assert found.verdict == "bad"
    assert found.found == "1 answer over 40 items: 'A' 100 %; always answering 'A' scores 100 %"


def test_options_that_are_right_in_one_place_too_often_are_worth_a_look() -> None:
    places = [0] * 30 + [1, 2, 3] * 10
    items = [choice(str(n), ["p", "q", "r", "s"], place) for n, place in enumerate(places)]
    found = balanced(items)
    assert found.verdict == "look"
    assert "scores 50 %" in found.found


def labelled(count: int, rule: str = "") -> list[Item]:
    chance = random.Random(2)
    items: list[Item] = []
    for n in range(count):
        label = chance.choice(["spam", "fine"])
        extra = rule if label == "spam" else ""
        items.append(asked(f"i{n}", f"{prose(chance, 12)} {extra}", label))
    return items


def test_a_word_that_settles_the_label_is_bad() -> None:
    found = shortcuts(labelled(80, "unsubscribe"))
    assert found.verdict == "bad"
    assert "'unsubscribe' in the brief goes with 'spam'" in found.found


CODES = {"refund": "RF-10", "delivery": "DL-20", "password": "PW-30", "invoice": "IN-40"}


def coded(count: int, known: int = len(CODES)) -> list[Item]:
    """Tickets whose codes follow from one word; of the codes beyond `known` the word is missing."""
    chance = random.Random(7)
    items: list[Item] = []
    for n in range(count):
        place, (word, code) = chance.choice(list(enumerate(CODES.items())))
        said = word if place < known else ""
        items.append(asked(f"i{n}", f"{prose(chance, 5)} {said} {prose(chance, 5)}", code))
    return items


def test_a_rule_from_words_to_codes_that_the_skill_states_is_no_shortcut() -> None:
    skill = "# Codes\n" + "\n".join(f"- {word}: answer {code}" for word, code in CODES.items())
    found = shortcuts(coded(80), skill)
    assert found.verdict == "ok"
    assert (
        "only words with a rule in the instructions or first skill predict the answer"
        in found.found
    )


def test_a_rule_that_the_skill_states_for_another_answer_is_still_bad() -> None:
    found = shortcuts(labelled(80, "unsubscribe"), "unsubscribe: fine\nspam: offers")
    assert found.verdict == "bad"
    assert shortcuts(labelled(80, "unsubscribe"), "unsubscribe: spam").verdict == "ok"


def test_a_table_from_words_to_codes_is_bad_with_a_word_that_it_may_be_the_task() -> None:
    found = shortcuts(coded(80))
    assert (found.verdict, "look up a word's answer" in found.advice) == ("bad", True)
    assert shortcuts(coded(80, known=2)).verdict == "bad"


def test_a_word_that_is_always_right_on_a_part_of_the_items_is_bad() -> None:
    chance = random.Random(3)
    cued = [
        asked(f"i{n}", f"{prose(chance, 12)} {'unsubscribe' * (n < 19)}", "spam")
        if n < 30
        else asked(f"i{n}", prose(chance, 12), "fine")
        for n in range(60)
    ]
    found = shortcuts(cued)
    assert (found.verdict, "right 19 of 19 times" in found.found) == ("bad", True)


def ticketed(cued: int, count: int, wrong: int = 0) -> list[Item]:
    """Two labels in turn; the first `cued` items of one have a word, and so have a few others."""
    chance = random.Random(4)
    items: list[Item] = []
    for n in range(count):
        spam, place = n % 2 == 0, n // 2
        extra = "unsubscribe" if place < (cued if spam else wrong) else ""
        items.append(asked(f"i{n}", f"{prose(chance, 12)} {extra}", "spam" if spam else "fine"))
    return items


@pytest.mark.parametrize("count", [80, 200, 380])
def test_a_word_that_is_right_19_of_19_times_is_bad_however_many_items_lack_it(count: int) -> None:
    found = shortcuts(ticketed(19, count))
    assert (found.verdict, "right 19 of 19 times" in found.found) == ("bad", True)


def test_a_topic_word_that_is_usual_with_both_labels_or_rare_is_not_accused() -> None:
    assert shortcuts(ticketed(19, 200, wrong=4)).verdict == "ok"
    assert shortcuts(ticketed(5, 80)).verdict == "ok"
    assert shortcuts(ticketed(19, 400)).verdict == "ok"


def test_a_place_that_is_always_right_where_it_is_there_is_bad() -> None:
    chance = random.Random(6)
    items = [
        asked(f"i{n}", f"{prose(chance, 9)} {n + 100}", str(n + 100))
        if n < 19
        else asked(f"i{n}", prose(chance, 9), prose(chance, 2))
        for n in range(120)
    ]
    found = shortcuts(items)
    assert (found.verdict, "right 19 of 19 times" in found.found) == ("bad", True)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_drawing_without_putting_back_is_never_luckier_than_with(
    of: int, others: int, data: st.DataObject
) -> None:
    among = of + others
    n = data.draw(st.integers(1, among))
    odds = [drawn(hits, n, of, among) for hits in range(min(n, of) + 1)]
    assert odds == sorted(odds, reverse=True)
    assert odds[0] == pytest.approx(1)
    if n <= of:
        assert odds[-1] <= (of / among) ** n * (1 + 1e-9)


def test_labels_that_no_word_settles_are_ok() -> None:
    assert shortcuts(labelled(80)).verdict == "ok"


def test_a_place_of_the_brief_that_is_the_answer_is_bad() -> None:
    chance = random.Random(5)
    items = [
        asked(f"i{n}", f"{prose(chance, 5)} 7 and then {n + 100}", str(n + 100)) for n in range(30)
    ]
    found = shortcuts(items)
    assert found.verdict == "bad"
    assert "right 30 of 30" in found.found


def test_too_few_items_tell_nothing() -> None:
    assert shortcuts(fair(5)).verdict == "left out"


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (["yes"] * 50, "bad"),
        (["yes"] * 85 + ["no"] * 15, "look"),
        (["yes"] * 50 + ["no"] * 50, "ok"),
        ([f"answer {n}" for n in range(50)], "ok"),
    ],
)
def test_a_constant_answer_must_not_score_well(answers: list[str], verdict: Verdict) -> None:
    assert balance([Gold(answers=(each,)) for each in answers]).verdict == verdict


@given(st.integers(1, 60), st.floats(0.05, 0.95))
def test_luck_is_a_probability_that_falls_with_the_hits(n: int, chance: float) -> None:
    odds = [luck(hits, n, chance) for hits in range(n + 1)]
    assert all(0 <= each <= 1 for each in odds)
    assert odds == sorted(odds, reverse=True)
    assert odds[-1] == pytest.approx(chance**n)
