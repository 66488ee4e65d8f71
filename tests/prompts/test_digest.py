from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.chat import Message, Speaker, ToolCall
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.tokens import estimate, head, tail
from skillopt.optimizer.sections import attempt_section, attempt_sections
from skillopt.prompts.digest import NO_LIMIT, Digest, Excerpt, Story, cut, fair, shorten

ROLES: list[Speaker] = ["assistant", "tool", "user"]


def repeat(text: str, times: int) -> str:
    return text * times


def told(task: str, turns: list[Message], answer: str, feedback: str) -> Story:
    return Story(task, tuple(turns), answer, feedback)


LONG = st.builds(repeat, st.text(max_size=60), st.integers(0, 80))
TURNS = st.lists(st.builds(Message, st.sampled_from(ROLES), LONG), max_size=30)
STORIES = st.builds(told, LONG, TURNS, LONG, LONG)


def size(excerpt: Excerpt) -> int:
    return sum(map(estimate, (excerpt.task, excerpt.turns, excerpt.answer, excerpt.feedback)))


def attempt(*turns: str, task: str = "T", answer: str = "A") -> Rollout:
    said = [Message("assistant" if at % 2 == 0 else "tool", text) for at, text in enumerate(turns)]
    messages = (Message("user", task), *said, Message("assistant", answer))
    return Rollout(
        task="t1", skill="d", outcome=Score(0, 0, "wrong"), trajectory=Trajectory(messages, answer)
    )


@given(STORIES, st.integers(0, 3000))
def test_a_digest_is_never_longer_than_its_room(story: Story, room: int) -> None:
    assert size(cut(story, room)) <= room


@given(STORIES, st.integers(0, 3000))
def test_what_fits_is_left_as_it_is(story: Story, room: int) -> None:
    whole = size(story.whole)
    assert cut(story, whole) == story.whole
    assert (cut(story, room) == story.whole) or whole > room


@given(STORIES, st.integers(0, 3000))
def test_a_digest_is_always_the_same_and_valid_text(story: Story, room: int) -> None:
    once, again = cut(story, room), cut(story, room)
    assert once == again
    for text in (once.task, once.turns, once.answer, once.feedback):
        assert text.encode().decode() == text


@given(st.text(min_size=1), st.integers(0, 40))
def test_head_and_tail_are_whole_characters_of_the_text(text: str, tokens: int) -> None:
    assert text.startswith(head(text, tokens))
    assert text.endswith(tail(text, tokens))
    assert estimate(head(text, tokens)) <= tokens
    assert estimate(tail(text, tokens)) <= tokens


@given(LONG, st.integers(50, 400))
def test_a_shortened_text_keeps_its_start_and_end(text: str, room: int) -> None:
    short = shorten(text, room)
    assert estimate(short) <= room
    assert short == text or (short[:8] == text[:8] and short[-8:] == text[-8:])


@given(st.lists(st.integers(0, 500), max_size=12), st.integers(0, 2000))
def test_room_is_shared_fairly_and_never_beyond_what_there_is(sizes: list[int], room: int) -> None:
    shares = fair(sizes, room)
    assert sum(shares) <= room
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    if sum(sizes) <= room:
        assert shares == sizes
    full = [size for size, share in zip(sizes, shares, strict=True) if share == size]
    part = [share for size, share in zip(sizes, shares, strict=True) if share < size]
    assert not full or not part or min(part) + 1 >= max(full)


def test_half_a_surrogate_pair_does_no_harm() -> None:
    assert "\ud83d" not in shorten("\ud83d" + "x" * 4000, 60)


def test_start_end_errors_and_tool_calls_stay_and_the_rest_is_counted() -> None:
    turns = ["start"] + ["chatter " * 40 for _ in range(40)] + ["last words"]
    turns[20] = "KeyError: 'Total' " * 3
    shown = attempt_section(attempt(*turns), 300)
    assert "[assistant] start" in shown
    assert "last words" in shown
    assert "KeyError: 'Total'" in shown
    assert "messages, about" in shown
    assert shown.index("start") < shown.index("left out") < shown.index("KeyError")
    assert estimate(shown) <= 300


def test_tool_calls_go_before_other_turns() -> None:
    said = [Message("assistant", f"talk {at} " + "blah " * 30) for at in range(30)]
    said[10:12] = [Message("assistant", "call: open sheet"), Message("tool", "cells " * 30)]
    story = Story("T", tuple(said), "A")
    assert "call: open sheet" in cut(story, 200).turns
    assert "talk 9 " not in cut(story, 200).turns


def test_an_attempt_within_the_limits_is_shown_byte_for_byte() -> None:
    one = attempt("look", "seen 3")
    assert attempt_sections([one], Digest()) == [attempt_section(one)]
    assert attempt_sections([one], Digest(NO_LIMIT, NO_LIMIT)) == [attempt_section(one)]


def test_short_attempts_leave_their_room_to_long_ones() -> None:
    short, long = attempt("hm"), attempt("word " * 4000)
    first, second = attempt_sections([short, long], Digest(attempt=NO_LIMIT, question=1000))
    assert first == attempt_section(short)
    assert 900 < estimate(second) <= 1000 - estimate(first)


def test_one_attempt_takes_no_more_than_its_limit_although_the_question_has_room() -> None:
    (shown,) = attempt_sections([attempt("word " * 4000)], Digest(attempt=500))
    assert 400 < estimate(shown) <= 500


def test_calls_of_tools_are_shown_with_their_arguments() -> None:
    call = ToolCall("c1", "look_up", '{"thing": "cup"}')
    story = Story(turns=(Message("assistant", "I look.", calls=(call,)), Message("tool", "3")))
    shown = '[assistant] I look.\n[call] look_up {"thing": "cup"}\n[tool] 3'
    assert story.whole.turns == shown
