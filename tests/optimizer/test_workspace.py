from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillopt.core.chat import Message
from skillopt.core.rollout import Failure, Outcome, Rollout, Score, Trajectory
from skillopt.core.tokens import estimate
from skillopt.optimizer.explore import AttemptFiles

PLENTY = 10_000


def attempt(task: str, outcome: Outcome, *turns: str, kind: str = "Due date") -> Rollout:
    said = (Message("user", f"Do {task}."), *(Message("tool", text) for text in turns))
    whole = (*said, Message("assistant", "done"))
    return Rollout(
        task=task, kind=kind, skill="d", outcome=outcome, trajectory=Trajectory(whole, "done")
    )


WRONG = Score(0, 0, "wrong answer: expected 'X', got 'Y'")
SPACE = AttemptFiles.of(
    [
        attempt("t1", Score(1, 1, "correct")),
        attempt("t2", WRONG, "line one\nline two"),
        attempt("t3", Failure("ModelError", "down")),
        attempt("../t4", WRONG, kind="../../etc"),
    ]
)


def test_each_scored_attempt_is_a_file_and_failed_ones_come_first() -> None:
    assert list(SPACE.files) == [
        "001-failed-due-date.md",
        "002-failed-etc.md",
        "003-passed-due-date.md",
    ]
    first, *_ = SPACE.list(PLENTY).splitlines()
    assert first.startswith("001-failed-due-date.md  task t2  about ")
    assert first.endswith("expected 'X', got 'Y'")


def test_a_file_shows_the_attempt_as_an_analyst_sees_it() -> None:
    shown = SPACE.read("./001-failed-due-date.md", 1, PLENTY)
    assert shown.startswith("001-failed-due-date.md, lines 1 to ")
    assert "<task>\nDo t2.\n</task>" in shown
    assert "<feedback>\nwrong answer: expected 'X', got 'Y'\n</feedback>" in shown


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../run/events.jsonl", "~/.ssh/id_rsa", "", ".", "t2", "C:\\x"]
)
def test_what_is_no_file_of_the_workspace_does_not_exist(name: str) -> None:
    assert "There is no file" in SPACE.read(name, 1, PLENTY)


def test_the_number_of_a_file_is_enough() -> None:
    assert SPACE.read("001-failed.md", 1, PLENTY).startswith("001-failed-due-date.md, lines 1")
    assert "There is no file '004-failed.md'" in SPACE.read("004-failed.md", 1, PLENTY)


def test_a_long_file_says_where_to_read_on() -> None:
    long = "\n".join(f"row {number}" for number in range(500))
    space = AttemptFiles.of([attempt("t", WRONG, long)])
    (name,) = space.files
    shown = space.read(name, 1, 200)
    last = int(shown.split("lines 1 to ")[1].split()[0])
    assert f"read on from line {last + 1}" in shown
    onward = space.read(name, last + 1, 200)
    assert f"lines {last + 1} to " in onward
    assert "no line 9999" in space.read(name, 9999, 200)
    assert "no line 0" in space.read(name, 0, 200)


def test_all_of_a_very_long_line_can_be_read() -> None:
    words = " ".join(f"w{number}" for number in range(3000))
    space = AttemptFiles.of([attempt("t", WRONG, words)])
    (name,) = space.files
    line, pieces = 1, list[str]()
    while line <= len(space.files[name].lines):
        shown = space.read(name, line, 400)
        heading, *rows = shown.splitlines()
        pieces += [row for row in rows if not row.startswith("[… ")]
        line = int(heading.split(" to ")[1].split()[0]) + 1
    assert words in "".join(pieces)


def test_a_search_finds_plain_text_in_any_case_with_alternatives_and_gaps() -> None:
    found = SPACE.grep("LINE TWO|correct", PLENTY)
    assert found.startswith("2 lines found:")
    assert "001-failed-due-date.md:" in found
    assert "003-passed-due-date.md:" in found
    assert SPACE.grep(r"expected.*got 'y'", PLENTY).startswith("2 lines found:")
    assert SPACE.grep(r"Do t2\.", PLENTY).startswith("1 line found:")
    assert SPACE.grep("got.*expected", PLENTY).startswith("No line holds 'got.*expected'")
    assert "needs a text" in SPACE.grep(" | ", PLENTY)


def test_no_search_can_run_away() -> None:
    space = AttemptFiles.of([attempt("t", WRONG, "a" * 200_000)])
    assert "No line holds" in space.grep("^(a+)+$", PLENTY)
    assert "No line holds" in space.grep(".*a" * 5000 + "b", PLENTY)


@given(
    st.lists(st.text(max_size=2000), max_size=6),
    st.integers(60, 2000),
    st.text(max_size=20),
    st.integers(1, 5),
)
@example(turns=[], room=60, text="\U000f0000" * 20, line=1)
@example(turns=["語" * 2000], room=60, text="語", line=1)
@example(turns=["\U000f0000" * 2000] * 6, room=61, text="\x00" * 20, line=5)
def test_what_is_shown_never_exceeds_the_room(
    turns: list[str], room: int, text: str, line: int
) -> None:
    space = AttemptFiles.of([attempt(f"t{n}", WRONG, *turns) for n in range(8)])
    name = next(iter(space.files))
    for shown in (space.list(room), space.read(name, line, room), space.grep(text, room)):
        assert estimate(shown) <= room
