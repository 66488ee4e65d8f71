"""Differences by word, and changes carried over to another skill."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt.analysis.differences import carried_over, differences, skill_differences, standing
from skillopt.core.skill import Reference, Skill, Text

BASE = Skill.parse("# Forms\n\n- Be brief.\n- Dates are ISO.\n- Say please.\n")


def with_text(text: str) -> Skill:
    return Skill.parse(text)


def changed_words(old: str, new: str) -> list[tuple[str, list[str]]]:
    return [
        (line.kind, [piece.text for piece in line.pieces if piece.changed])
        for line in differences(old, new)
    ]


def test_of_a_reworded_line_only_the_words_that_differ_are_marked() -> None:
    assert changed_words("- Write dates as ISO.\nsame", "- Write times as ISO.\nsame") == [
        ("removed", ["dates"]),
        ("added", ["times"]),
        ("same", []),
    ]


def test_lines_with_little_in_common_are_marked_as_a_whole() -> None:
    assert changed_words("- Be brief.", "Answer with numbers only") == [
        ("removed", ["- Be brief."]),
        ("added", ["Answer with numbers only"]),
    ]


def test_a_line_too_long_to_compare_by_words_is_marked_as_a_whole() -> None:
    long = "word " * 3000
    (removed, added) = differences(f"{long}old", f"{long}new")
    assert [len(line.pieces) for line in (removed, added)] == [1, 1]


def test_lines_far_from_a_change_become_a_gap_that_says_how_many() -> None:
    old = "\n".join(map(str, range(10)))
    lines = differences(old, old.replace("5", "five"), context=1)
    assert [line.text for line in lines] == ["4 lines", "4", "5", "five", "6", "3 lines"]
    assert [(line.old, line.new) for line in lines[1:3]] == [(5, 5), (6, None)]
    assert differences(old, old, context=1) == ()


def test_files_of_a_package_are_compared_one_by_one() -> None:
    old = Skill.of("", [Text("a\n")], [Reference("references/x.md", "b\n")])
    new = old.with_reference(Reference("references/x.md", "c\n"))
    (file,) = skill_differences(old, new)
    assert (file.path, file.added, file.removed) == ("references/x.md", 1, 1)


words = st.text(alphabet="ab \n-", max_size=40)


@given(old=words, new=words)
def test_the_lines_of_both_texts_can_be_read_back(old: str, new: str) -> None:
    lines = differences(old, new)
    was = [line.text for line in lines if line.kind in {"same", "removed"}]
    now = [line.text for line in lines if line.kind in {"same", "added"}]
    assert (was, now) == (old.splitlines(), new.splitlines())


def test_two_changes_of_different_lines_both_hold() -> None:
    theirs = with_text(BASE.render().replace("brief", "short"))
    ours = with_text(BASE.render() + "- Sign it.\n")
    merged = carried_over(BASE, theirs, ours)
    assert merged is not None
    assert merged.render() == theirs.render() + "- Sign it.\n"


def test_rules_that_both_added_at_the_end_stand_one_after_the_other() -> None:
    merged = carried_over(
        BASE, with_text(BASE.render() + "- One.\n"), with_text(BASE.render() + "- Two.\n")
    )
    assert merged is not None
    assert merged.render() == BASE.render() + "- Two.\n- One.\n"


def test_a_change_can_be_taken_out_again_from_under_later_ones() -> None:
    first = with_text(BASE.render() + "- One.\n")
    later = with_text(first.render().replace("please", "thanks"))
    taken_out = carried_over(first, BASE, later)
    assert taken_out == with_text(BASE.render().replace("please", "thanks"))


def test_lines_that_are_there_already_do_not_come_twice() -> None:
    one, two = (with_text(BASE.render() + text) for text in ("- One.\n", "- One.\n- Two.\n"))
    assert carried_over(BASE, one, two) == two
    assert carried_over(BASE, two, with_text(one.render() + "- Three.\n")) == with_text(
        one.render() + "- Three.\n- Two.\n"
    )


def test_lines_that_have_moved_are_taken_out_where_they_stand() -> None:
    one, two = (with_text(BASE.render() + text) for text in ("- One.\n", "- One.\n- Two.\n"))
    swapped = with_text(BASE.render() + "- Two.\n- One.\n")
    assert carried_over(two, one, swapped) == one
    assert carried_over(one, BASE, swapped) == with_text(BASE.render() + "- Two.\n")


def test_a_change_is_in_a_skill_if_its_lines_are() -> None:
    two = with_text(BASE.render() + "- One.\n- Two.\n")
    assert standing(BASE, two, with_text("- Two.\n" + BASE.render() + "- One.\n")) == "in"
    assert standing(BASE, two, with_text(BASE.render() + "- Three.\n")) == "out"
    assert standing(BASE, two, with_text(BASE.render() + "- Two.\n")) == "in part"
    assert standing(two, BASE, with_text(BASE.render() + "- Three.\n")) == "in"
    assert standing(two, BASE, with_text("- Two.\n- One.\n")) == "out"


def test_where_both_changed_the_same_line_nothing_is_guessed() -> None:
    theirs = with_text(BASE.render().replace("brief", "short"))
    ours = with_text(BASE.render().replace("brief", "quick"))
    assert carried_over(BASE, theirs, ours) is None


def test_text_without_a_last_line_break_stays_so() -> None:
    base = with_text("- a")
    merged = carried_over(base, with_text("- a\n- b"), with_text("- c\n- a"))
    assert merged is not None
    assert merged.render() == "- c\n- a\n- b"


def test_what_would_break_a_protected_region_is_refused() -> None:
    base = with_text("a\nb\nc\n")
    theirs = with_text("a\n<!-- SLOW_UPDATE_START -->\nb\n<!-- SLOW_UPDATE_END -->\nc\n")
    ours = with_text("<!-- SLOW_UPDATE_START -->\nx\n<!-- SLOW_UPDATE_END -->\na\nb\nc\n")
    assert carried_over(base, theirs, ours) is None
    assert carried_over(base, theirs, base) == theirs
    assert carried_over(base, base, ours) == ours
