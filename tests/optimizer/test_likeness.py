from __future__ import annotations

import math

from skillopt.optimizer.likeness import Likeness

TASKS = {
    1: "Case 1. Papers: a bill. What is its entry?",
    2: "Case 2. Papers: a permit. What is its entry?",
    3: "Case 3. Papers: a bill and a lease. What is its entry?",
    4: "Case 4. Papers: a permit. What is its entry?",
    5: "Case 5. Papers: a lease. What is its entry?",
}


def test_only_words_that_some_texts_share_and_others_lack_count() -> None:
    likeness = Likeness.among(TASKS.values())
    assert likeness("For a bill, use the X form.", TASKS[1]) == math.log(5 / 2)
    assert likeness("What is its entry?", TASKS[1]) == 0
    assert likeness("Never heard of.", TASKS[1]) == 0


def test_groups_are_led_in_order_and_filled_with_what_is_most_alike() -> None:
    likeness = Likeness.among(TASKS.values())
    assert likeness.groups(TASKS, 2) == [[1, 3], [2, 4], [5]]
    assert likeness.groups(TASKS, 3) == [[1, 3, 5], [2, 4]]
    backwards = dict(sorted(TASKS.items(), reverse=True))
    assert likeness.groups(backwards, 2) == [[5, 3], [4, 2], [1]]


def test_texts_that_have_nothing_in_common_keep_their_order() -> None:
    texts = {"b": "one", "a": "two", "c": "three"}
    assert Likeness.among(texts.values()).groups(texts, 2) == [["b", "a"], ["c"]]
    assert Likeness.among([]).groups({}, 2) == []


def test_of_a_long_text_both_ends_are_compared() -> None:
    long = f"first {'middle ' * 2000} last"
    likeness = Likeness.among([long, "other", "another"])
    assert likeness("first", long) > 0
    assert likeness("last", long) > 0
