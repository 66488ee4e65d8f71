from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_items import asked, prose

from skillopt.analysis.integrity.duplicates import ALIKE, duplicates, near_duplicates
from skillopt.analysis.integrity.findings import Item
from skillopt.core.task import Split


def unlike(count: int, split: Split = "train", seed: int = 0) -> list[Item]:
    chance = random.Random(seed)
    return [asked(f"{split}{n}", prose(chance, 20), split=split) for n in range(count)]


def test_items_of_their_own_are_ok() -> None:
    found = duplicates([*unlike(30), *unlike(30, "val", 1)])
    assert [each.verdict for each in found] == ["ok", "ok"]


def test_the_same_words_in_two_splits_are_bad_whatever_the_punctuation() -> None:
    train, val = unlike(30), unlike(30, "val", 1)
    copy = asked("copy", train[3].brief.upper().replace(" ", ", "), split="val")
    across, within = duplicates([*train, *val, copy])
    assert across.verdict == "bad"
    assert "1 of them word for word" in across.found
    assert across.examples == ("train train3 and val copy (100 % alike)",)
    assert within.verdict == "ok"


@pytest.mark.parametrize("disguise", ["\u200be", "\uff45"])
def test_full_width_and_invisible_characters_hide_no_copy(disguise: str) -> None:
    train, val = unlike(30), unlike(30, "val", 1)
    copy = asked("copy", train[3].brief.replace("e", disguise), split="val")
    across, _ = duplicates([*train, *val, copy])
    assert across.verdict == "bad"
    assert across.examples == ("train train3 and val copy (100 % alike)",)


def test_one_changed_word_is_a_near_duplicate_and_half_of_them_is_not() -> None:
    train = unlike(30)
    said = train[3].brief.split()
    near = asked("near", " ".join([*said[:10], "otherwise", *said[11:]]), split="test")
    far = asked("far", " ".join([*said[:10], *prose(random.Random(9), 10).split()]), split="test")
    pairs = near_duplicates([*train, near, far])
    assert [(each.one.id, each.other.id) for each in pairs] == [("train3", "near")]
    assert ALIKE <= pairs[0].likeness < 1


def test_the_same_words_with_other_numbers_are_another_task() -> None:
    chance = random.Random(3)
    text = prose(chance, 30)
    assert not near_duplicates(
        [*unlike(30), asked("a", f"{text} 12 and 7"), asked("b", f"{text} 13 and 8")]
    )
    assert near_duplicates(
        [*unlike(30), asked("a", f"{text} 12 and 7"), asked("b", f"{text} 12 or 7")]
    )


def test_a_template_does_not_make_items_alike() -> None:
    chance = random.Random(4)
    frame = prose(chance, 40)
    items = [asked(f"i{n}", f"{frame} {prose(chance, 4)}") for n in range(40)]
    assert not near_duplicates(items)


def test_one_question_with_two_answers_is_told_first() -> None:
    items = unlike(20)
    twice = [asked("x", "Who was it that went there first?", "Ann")]
    twice += [asked("y", "Who was it that went there first?", "Bob")]
    _, within = duplicates([*items, asked("z", items[0].brief), *twice])
    assert within.verdict == "look"
    assert "1 pair with the same question but different answers" in within.found
    assert within.examples[0] == "train x and train y (100 % alike)"


def test_briefs_that_all_read_alike_cannot_tell_items_apart() -> None:
    (found,) = duplicates([asked(f"i{n}", "What is the total of this receipt?") for n in range(9)])
    assert found.verdict == "left out"


@pytest.mark.parametrize("copied", [1, 30, 36, 48, 60])
def test_the_more_of_a_split_is_copied_from_train_the_worse(copied: int) -> None:
    train, others = unlike(60), unlike(60, "val", 1)
    copies = [asked(f"copy{n}", train[n].brief.upper(), split="val") for n in range(copied)]
    across, within = duplicates([*train, *copies, *others[copied:], *unlike(60, "test", 2)])
    assert across.verdict == "bad"
    assert f"{copied} of them word for word" in across.found
    assert within.verdict == "ok"


def test_three_equal_splits_are_bad() -> None:
    train = unlike(60)
    splits: tuple[Split, ...] = ("val", "test")
    rest = [asked(f"{split}{n.id}", n.brief, split=split) for split in splits for n in train]
    across, _ = duplicates([*train, *rest])
    assert across.verdict == "bad"
    both = ("test", "val")
    told = "; ".join(f"100 % of {split} has a near duplicate in train" for split in both)
    assert told in across.found


def test_briefs_that_all_read_alike_in_each_split_cannot_tell_items_apart() -> None:
    splits: tuple[Split, ...] = ("train", "val", "test")
    every = [asked(f"{s}{n}", "What is the total?", split=s) for s in splits for n in range(9)]
    (found,) = duplicates(every)
    assert found.verdict == "left out"


def test_many_near_twins_of_val_in_train_are_bad_and_few_are_worth_a_look() -> None:
    train, val = unlike(60), unlike(60, "val", 1)

    def verdict(count: int) -> str:
        near = [asked(f"n{n}", f"{train[n].brief} indeed", split="val") for n in range(count)]
        return duplicates([*train, *val, *near])[0].verdict

    assert (verdict(1), verdict(20)) == ("look", "bad")


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_items_are_compared_by_a_few_comparisons(seed: int) -> None:
    items = unlike(3000, seed=seed)
    twin = asked("twin", f"{items[7].brief} indeed", split="val")
    assert [each.other.id for each in near_duplicates([*items, twin])] == ["twin"]


WORDS = st.lists(st.sampled_from(["one", "two", "three", "four", "five", "six"]), max_size=9)


def near(
    found: dict[tuple[str, ...], set[object]], *, least: int
) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every pair above the threshold, by brute force."""
    # With at most 12 items, what stands in more than 5 of them is boilerplate.
    every = list(found.values())
    common = {each for some in every for each in some if sum(each in it for it in every) > 5}
    sets = {words: each - common for words, each in found.items()}
    return {
        (one, other)
        for one, other in combinations(found, 2)
        if sets[one]
        and sets[other]
        and max(len(sets[one]), len(sets[other])) >= least
        and len(sets[one] & sets[other]) / len(sets[one] | sets[other]) >= ALIKE
    }


@given(st.lists(WORDS, max_size=12))
def test_no_pair_above_the_threshold_is_missed(texts: list[list[str]]) -> None:
    items = [asked(f"i{n}", " ".join(text)) for n, text in enumerate(texts)]
    found = {
        (each.one.words, each.other.words) for each in near_duplicates(items) if each.likeness < 1
    }
    different = list(dict.fromkeys(item.words for item in items))
    in_order = {words: set[object](pairwise(words)) for words in different}
    in_any = {
        words: set[object](words) if len(set(words)) >= 5 else set[object]() for words in different
    }
    wanted = near(in_order, least=1) | near(in_any, least=5)
    assert found == wanted
