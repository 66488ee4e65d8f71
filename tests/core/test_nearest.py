from __future__ import annotations

import pytest

from skillopt.core.nearest import did_you_mean, nearest


def test_capitals_dashes_and_underscores_make_no_difference() -> None:
    assert nearest("No-Regression", ["no_regression"], like=1.0) == "no_regression"


@pytest.mark.parametrize(
    ("word", "names", "near"),
    [
        ("tset", ["train", "val", "test"], "test"),
        ("pared", ["strict", "paired"], "paired"),
        ("PAIRED", ["strict", "paired"], "paired"),
        ("no-regresion", ["strict", "no_regression"], "no_regression"),
        ("1.5b", ["coder-1.5b", "coder-0.5b"], "coder-1.5b"),
        ("coder", ["a-very-long-coder-one", "a-very-long-coder-two"], "a-very-long-coder-one"),
        ("xyz", ["train", "val"], None),
        ("a", ["train", "val"], None),
        ("", ["train"], None),
        ("x", [], None),
        ("abc", ["an_abcdefghij"], "an_abcdefghij"),
        ("ab", ["an_abcdefghij"], None),
        ("abcde", ["abxyz", "abcxy"], "abcxy"),
    ],
)
def test_the_nearest_name_is_alike_or_has_the_word_as_a_part(
    word: str, names: list[str], near: str | None
) -> None:
    assert nearest(word, names) == near
    assert did_you_mean(word, names) == (f"did you mean {near!r}?" if near else "")
