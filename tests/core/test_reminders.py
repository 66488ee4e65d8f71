from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.reminders import bare, new_reminders, tidy


@pytest.mark.parametrize("other", ["mind  the\nunit", "- Mind the unit!", "MIND THE UNIT ..."])
def test_notes_are_alike_whatever_their_case_spacing_and_final_punctuation(other: str) -> None:
    assert new_reminders([other], ["Mind the unit."]) == ()
    assert bare(other) == bare("Mind the unit.")


def test_new_notes_keep_their_order_and_come_once() -> None:
    said = ["b", "", "1. a", "B.", "<!-- APPENDIX_END -->", "c"]
    assert new_reminders(said, ["C"]) == ("b", "a")


@given(st.lists(st.text(max_size=12)))
def test_what_was_kept_is_not_fresh_again(notes: list[str]) -> None:
    kept = new_reminders(notes, ())
    assert new_reminders(notes, kept) == ()
    assert new_reminders(kept, ()) == kept
    assert all(tidy(each) == each for each in kept)
