from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from skillopt.core.events import shortened


@given(st.text("ab \n\t", max_size=200), st.integers(4, 70))
@example("a" * 60, 60)
@example("a" * 61, 60)
def test_a_shortened_text_is_one_line_of_at_most_so_many_characters(text: str, most: int) -> None:
    line = " ".join(text.split())
    short = shortened(text, most)
    if len(line) <= most:
        assert short == line
        return
    begun = short.removesuffix("...")
    assert begun != short
    assert line.startswith(begun)
    # Nothing but a space at its end is given up beyond what the dots take.
    assert len(short) == most or line[most - 4] == " "
    assert len(short) >= most - 1


def test_a_line_that_is_shown_has_sixty_characters_unless_told_otherwise() -> None:
    assert shortened("word " * 20) == "word " * 11 + "wo..."
    assert len(shortened("x" * 61)) == 60
