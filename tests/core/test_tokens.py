from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.tokens import estimate, head, tail

TEXTS = st.text(st.sampled_from("ab\né\u20ac\U0001f600"), max_size=30)
MOST = st.integers(-2, 12)


@given(TEXTS, MOST)
def test_a_beginning_and_an_end_are_as_long_as_whole_characters_allow(text: str, most: int) -> None:
    def fits(part: str) -> bool:
        return estimate(part) <= max(0, most)

    ways = range(len(text) + 1)
    assert head(text, most) == max((text[:at] for at in ways if fits(text[:at])), key=len)
    assert tail(text, most) == max((text[at:] for at in ways if fits(text[at:])), key=len)


def test_four_bytes_are_about_a_token() -> None:
    assert [estimate(text) for text in ("", "a", "abcd", "abcde", "\u20ac\u20ac")] == [
        0,
        1,
        1,
        2,
        2,
    ]
    assert (head("abcdefghij", 2), tail("abcdefghij", 2)) == ("abcdefgh", "cdefghij")


def test_half_a_surrogate_pair_is_counted_and_left_out_of_parts() -> None:
    text = "ab\ud800cd"
    assert estimate(text) == 2
    assert (head(text, 2), tail(text, 2)) == ("abcd", "abcd")
