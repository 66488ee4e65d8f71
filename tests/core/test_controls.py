from __future__ import annotations

from skillopt.core.controls import escaped, folded, one_line


def test_what_content_may_not_do_to_a_terminal_is_written_out() -> None:
    assert escaped("a\x1b[2Jb\x7f\x9b\u202e\u2066\n\té") == (
        "a\\x1b[2Jb\\u007f\\u009b\\u202e\\u2066\n\té"
    )
    assert one_line("a\nb\tc\x1b") == "a\\nb\\tc\\x1b"


def test_texts_that_look_the_same_have_one_form() -> None:
    assert folded("Straße\u200b") == folded("STRASSE") == "strasse"
    assert folded("\uff21\u00ad\ufe0fb") == folded("aB") == "ab"
    assert folded("é") != folded("e")
