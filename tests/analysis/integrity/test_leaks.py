from __future__ import annotations

import random

import pytest
from support_items import asked, choice, prose

from skillopt.analysis.integrity.findings import Item
from skillopt.analysis.integrity.leaks import brief_leaks, copying, skill_leaks
from skillopt.core.task import Split

FIRST = "# How to\n\n- Read the whole text before you answer.\n"


def made(count: int = 40, shown: str = "", split: Split = "train", **more: bool) -> list[Item]:
    """Open questions; `shown` is added to each brief, with {} for the answer."""
    chance = random.Random(f"{split}")
    items: list[Item] = []
    for n in range(count):
        answer = prose(chance, 2)
        brief = f"{prose(chance, 20)} {shown.format(answer)}"
        items.append(asked(f"{split}{n}", brief, answer, split, **more))
    return items


def test_briefs_without_their_answers_are_ok() -> None:
    assert brief_leaks(made()).verdict == "ok"


@pytest.mark.parametrize(
    "shown", ["\nAnswer: {}", '\n"gold": "{}"', "\nThe correct answer is {}.", "\nlabel = {}"]
)
def test_a_brief_that_says_its_answer_is_bad(shown: str) -> None:
    found = brief_leaks(made(shown=shown))
    assert found.verdict == "bad"
    assert "100 % state it explicitly" in found.found
    assert found.examples[0] == "train train0"


def test_an_answer_in_a_text_is_worth_a_look_unless_it_is_to_be_found_there() -> None:
    assert brief_leaks(made(shown="{} and more of it")).verdict == "look"
    meant = brief_leaks(made(shown="{} and more of it", quoted=True))
    assert meant.verdict == "ok"
    assert "the task is to find it in a text" in meant.found


def test_words_that_every_brief_has_are_no_leak() -> None:
    items = [
        asked(f"i{n}", f"{prose(random.Random(n), 9)}. Is it so? Answer yes or no.", answer)
        for n, answer in enumerate(["yes", "no"] * 20)
    ]
    assert brief_leaks(items).verdict == "ok"


def test_options_may_hold_the_answer_and_the_question_may_not() -> None:
    chance = random.Random(0)
    items = [choice(f"i{n}", [prose(chance, 3) for _ in range(4)], n % 4) for n in range(40)]
    assert brief_leaks(items).verdict == "ok"
    spoilt = [
        Item(each.id, each.split, f"{each.gold.answers[0]}, they say. {each.brief}", each.gold)
        for each in items
        if each.gold
    ]
    found = brief_leaks(spoilt)
    assert found.verdict == "look"
    assert "beside the options" in found.found


def answer_of(item: Item) -> str:
    assert item.gold is not None
    return item.gold.answers[0]


def test_an_answer_in_the_skill_is_worth_a_look_and_beside_its_question_bad() -> None:
    items = made()
    hint = f"{FIRST}- Often it is {answer_of(items[0])}.\n"
    found = skill_leaks(items, hint, name="skill")
    assert found.verdict == "look"
    assert found.examples == (f"train train0: {answer_of(items[0])!r}",)
    recited = f"{hint}- When asked {items[0].brief}\n"
    assert skill_leaks(items, recited, name="skill").verdict == "bad"
    assert skill_leaks(items, FIRST, name="skill").verdict == "ok"


def test_many_answers_in_the_skill_are_bad() -> None:
    items = made()
    table = "\n".join(f"- {answer_of(item)}" for item in items[:10])
    assert skill_leaks(items, FIRST + table, name="skill").verdict == "bad"


def test_what_the_first_skill_said_already_is_not_held_against_training() -> None:
    items = made()
    hint = f"{FIRST}- Often it is {answer_of(items[0])}.\n"
    assert skill_leaks(items, f"{hint}- More.\n", name="skill", before=hint).verdict == "ok"
    copied = f"{FIRST}- {items[0].brief}\n"
    assert copying(items, f"{copied}- More.\n", copied).verdict == "ok"


def test_labels_may_be_named_in_a_skill() -> None:
    items = [asked(f"i{n}", "?", ["positive", "negative"][n % 2]) for n in range(40)]
    found = skill_leaks(items, "- Say positive or negative.", name="skill")
    assert found.verdict == "left out"


LONG = FIRST + "\n".join(f"- {prose(random.Random(n), 30)}" for n in range(10))


def test_a_copied_phrase_is_worth_a_look_and_shown() -> None:
    items = made()
    phrase = " ".join(items[5].brief.split()[2:14])
    found = copying(items, f"{LONG}\n- As in {phrase}: think.\n")
    assert found.verdict == "look"
    assert found.examples == (f"train train5: {phrase!r}",)
    assert "1 passage of" in found.found


def test_a_skill_that_is_mostly_copied_is_bad() -> None:
    items = made()
    assert copying(items, FIRST + "\n".join(item.brief for item in items[:5])).verdict == "bad"


def test_words_of_a_sealed_split_are_bad() -> None:
    items = [*made(), *made(split="test")]
    found = copying(items, f"{LONG}\n- {items[-1].brief}\n")
    assert found.verdict == "bad"
    assert "1 from val or test" in found.found


def test_a_manner_of_speaking_is_not_copied() -> None:
    frame = "fill in the fields of the form in the order given here"
    items = made(shown=frame)
    assert copying(items, f"{FIRST}- When told to {frame}, use a comma.\n").verdict == "ok"
    assert copying(items, FIRST).verdict == "ok"
