from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.edits import (
    Append,
    Change,
    Delete,
    Edit,
    InsertAfter,
    Replace,
    Rewrite,
    Suggestion,
)
from skillopt.core.memory import (
    Memory,
    MemoryEntry,
    meaning,
    regression_share,
    similar,
    text_of,
    words,
)
from skillopt.core.proposal import Pattern
from skillopt.core.rollout import Evaluation, Score

A, B, C = Append("- Give units."), Append("- Round up."), Delete("- Be brief.")


def entry(step: int, *rejected: Edit, accepted: tuple[Edit, ...] = ()) -> MemoryEntry:
    return MemoryEntry(
        step=step, action="x", n_total=4, n_fail=1, rejected=rejected, accepted=accepted
    )


def disproved(*entries: MemoryEntry) -> set[Edit]:
    found = Memory(entries).disproved
    return {edit for edit in (A, B, C) if meaning(edit) in found}


def test_an_edit_is_disproved_by_one_rejection_alone() -> None:
    assert disproved(entry(1, A)) == {A}


def test_blame_for_a_bundle_is_shared_by_its_edits() -> None:
    assert disproved(entry(1, A, B)) == set()
    assert disproved(entry(1, A, B), entry(2, A, C)) == {A}
    assert disproved(*(entry(step, A, B, C) for step in (1, 2))) == set()
    assert disproved(*(entry(step, A, B, C) for step in (1, 2, 3))) == {A, B, C}


def test_each_edit_that_a_person_rejects_is_disproved_also_after_an_epoch_that_forgets() -> None:
    said = replace(entry(1, A, B), one_by_one=True)
    assert disproved(said, entry(2, B, C)) == {A, B}
    forgetting = Memory((said, entry(2, C))).start_epoch(None, forgets=True)
    assert forgetting.steps == (said,)
    assert disproved(said, entry(3, accepted=(A,))) == {B}


def test_an_accepted_edit_is_cleared_of_what_was_put_on_it_before() -> None:
    assert disproved(entry(1, A), entry(2, accepted=(A,))) == set()
    assert disproved(entry(1, A), entry(2, accepted=(A,)), entry(3, A)) == {A}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Append("- Give the units."), Append("* **give** units")),
        (Append("Give units."), InsertAfter("Rules:", "Please give units!")),
        (Delete("- Be brief."), Delete("Be brief")),
    ],
)
def test_the_same_edit_in_other_dress_means_the_same(one: Edit, other: Edit) -> None:
    assert meaning(one) == meaning(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Append("Write dates as 2024-01-31."), Append("Write dates as 2024.01.31.")),
        (Append("Answer Y or N."), Append("Answer y or n.")),
        (Append("Surname before first name."), Append("First name before surname.")),
        (Append("Always round up."), Append("Never round up.")),
        (Append("Give units."), Replace("No units.", "Give units.")),
        (Append("Use -5."), Append("Use 5.")),
    ],
)
def test_what_may_be_the_point_of_a_rule_keeps_two_edits_apart(one: Edit, other: Edit) -> None:
    assert meaning(one) != meaning(other)


@given(st.text())
def test_every_text_has_words_and_bullets_are_none_of_them(text: str) -> None:
    assert words(f"- {text}") == words(text)


@given(st.text(), st.text())
def test_likeness_goes_both_ways(one: str, other: str) -> None:
    assert similar(one, other) == similar(other, one)
    assert similar(one, one)


def test_failures_in_nearly_the_same_words_are_counted_as_one_in_the_latest_words() -> None:
    steps = tuple(
        MemoryEntry(
            step=step,
            action="x",
            n_total=4,
            n_fail=2,
            patterns=(Pattern(name, 2, "", (f"t{step}",)), Pattern("wrong unit", 3)),
        )
        for step, name in ((1, "date in the wrong form"), (2, "dates in wrong form"))
    )
    first, second = Memory((*steps, entry(3))).patterns
    assert (first.pattern.name, first.pattern.count, first.last) == ("wrong unit", 6, 2)
    assert second.pattern == Pattern("dates in wrong form", 4, "", ("t1", "t2"))


def test_rejections_come_by_frequency_and_then_by_age() -> None:
    memory = Memory((entry(1, A, B), entry(2, C), entry(3, Append("- give units"), B)))
    told = [(each.edit, each.times, each.last, each.alone) for each in memory.rejections]
    assert told == [
        (Append("- give units"), 2, 3, False),
        (B, 2, 3, False),
        (C, 1, 2, True),
    ]


def test_the_steps_of_one_epoch_can_be_told_apart() -> None:
    steps = tuple(
        MemoryEntry(step=step, epoch=epoch, action="x", n_total=1, n_fail=1)
        for step, epoch in ((1, 1), (2, 1), (3, 2))
    )
    assert [each.step for each in Memory(steps, "l").of_epoch(1).steps] == [1, 2]
    assert Memory(steps, "l").of_epoch(1).lessons == "l"


def test_older_candidates_count_half_as_much_in_the_volatility() -> None:
    def scored(**marks: float) -> Evaluation:
        return Evaluation("x", "val", {task: Score(mark, mark) for task, mark in marks.items()})

    before = scored(a=1, b=1, c=0, d=0)
    memory = Memory().update_volatility(before, scored(a=0, b=0, c=1, d=1))
    assert memory.volatility == pytest.approx(0.25)  # two of four changes were for the worse
    memory = memory.update_volatility(before, scored(a=0, b=1, c=0, d=0))
    assert memory.volatility == pytest.approx((0.25 + 1) / 2)
    memory = memory.update_volatility(before, before)
    assert memory.volatility == pytest.approx((0.25 + 1) / 4)


def test_a_change_from_outside_gives_training_a_new_start_and_puts_what_passed_in_doubt() -> None:
    memory = Memory(fruitless=3, solved=frozenset({"a", "b"}))
    assert memory.afresh() == Memory(solved=frozenset({"a", "b"}), doubted=frozenset({"a", "b"}))


def test_a_rejected_reminder_is_disproved_for_itself_and_for_no_edit() -> None:
    noted = replace(entry(1), rejected_notes=("Give units!",))
    assert Memory((noted,)).disproved == {("note", "give units")}
    assert disproved(noted) == set()
    assert disproved(replace(noted, rejected=(A,))) == set()


def test_an_edit_was_rejected_alone_if_it_was_so_once() -> None:
    for steps in ((entry(1, A), entry(2, A, B)), (entry(1, A, B), entry(2, A))):
        told = {each.edit: (each.times, each.alone) for each in Memory(steps).rejections}
        assert told == {A: (2, True), B: (1, False)}


def test_the_meaning_of_a_change_is_its_kind_and_its_words() -> None:
    changes: list[Change] = [
        Append("- Give the units."),
        InsertAfter("Rules:", "Give units"),
        Replace("- No units", "Give units"),
        Delete("- Give units."),
        Suggestion("clarify", "title", "Give units"),
        Rewrite("title", ("summary",), "Give units"),
    ]
    give = ("give", "units")
    assert [meaning(change) for change in changes] == [
        ("add", give),
        ("add", give),
        ("replace", ("no", "units"), give),
        ("delete", give),
        ("suggest", give),
        ("rewrite", give),
    ]
    assert [text_of(change) for change in changes] == [
        "- Give the units.",
        "Give units",
        "- No units Give units",
        "- Give units.",
        "Give units",
        "title summary",
    ]


def test_single_letters_and_words_in_capitals_are_kept_but_for_those_that_begin_a_sentence() -> (
    None
):
    said = words("A clerk and I write ISO dates: Y, n, P1, x.")
    assert said == ("clerk", "and", "i", "write", "ISO", "dates", "Y", "n", "P1", "x")


def test_a_text_without_words_is_like_another_one_only() -> None:
    assert [similar(one, other) for one, other in (("", "-"), ("", "a b"), ("units", "!"))] == [
        True, False, False
    ]  # fmt: skip
    assert similar("give units now please", "give unit now")
    assert not similar("give units now", "take units later")
    assert similar("one two three", "one two three four")
    assert not similar("one two", "one two three")


def test_only_tasks_that_both_skills_were_scored_on_count_as_changed() -> None:
    before = Evaluation("x", "val", {"a": Score(1, 1), "b": Score(0, 0), "c": Score(1, 1)})
    after = Evaluation("y", "val", {"a": Score(0, 0), "b": Score(1, 1), "d": Score(0, 0)})
    assert regression_share(before, after) == 0.5
    assert regression_share(after, before) == 0.5
    assert regression_share(before, Evaluation("y", "val", {})) == 0


def test_an_epoch_starts_with_new_lessons_or_the_old_ones_and_forgets_or_not() -> None:
    memory = Memory((entry(1, A),), "old", 0.5, fruitless=2)
    assert memory.start_epoch(None, forgets=False) == memory
    assert memory.start_epoch("", forgets=True) == Memory((), "", 0.5, fruitless=2)
    assert memory.start_epoch("new", forgets=False) == replace(memory, lessons="new")


def test_a_plural_of_four_letters_or_more_counts_as_its_singular() -> None:
    assert similar("give units", "give unit")
    assert not similar("gas", "ga")
