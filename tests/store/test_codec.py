"""Attempts of agents survive the way through JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skillopt.core.chat import Image, Message, ToolCall, Usage
from skillopt.core.rollout import Evaluation, Rollout, Score, Trajectory
from skillopt.store import codec
from skillopt.store.layout import RolloutFolder
from skillopt.store.rollout_files import conversation_files, result_rows

PNG = Image.of(b"\x89PNG", "image/png")
MESSAGES = (
    Message("user", "What is it?", images=(PNG,)),
    Message("assistant", "", calls=(ToolCall("c1", "look", '{"at": 1}'),)),
    Message("tool", "a cup", answers="c1"),
    Message("assistant", "cup"),
)


def attempt(**more: Any) -> Rollout:  # noqa: ANN401 - the fields of a dataclass
    trajectory = Trajectory(MESSAGES, "cup", Usage(2, 10, 4), 2, **more)
    return Rollout(task="t", skill="s", outcome=Score(1, 1), trajectory=trajectory)


def test_what_an_agent_leaves_is_read_as_it_was_written() -> None:
    files = {"a.txt": b"text\r\n", "b.bin": b"\xff\x00\xfe", "task": "é".encode()}
    rollout = attempt(files=files, exit_status=3, reached_limit="turns", skill_opened=False)
    kept = codec.codec_of(Rollout).encode(rollout)
    assert codec.codec_of(Rollout).decode(kept) == rollout
    assert json.loads(kept)["trajectory"]["files"]["a.txt"] == {"text": "text\r\n"}


def test_attempts_kept_before_there_were_agents_are_still_read() -> None:
    told = json.loads(codec.codec_of(Rollout).encode(attempt()))
    for name in ("files", "exit_status", "reached_limit", "skill_opened"):
        del told["trajectory"][name]
    found = codec.codec_of(Rollout).decode(json.dumps(told))
    assert found == attempt()
    assert found.trajectory is not None
    assert (found.trajectory.files, found.trajectory.skill_opened) == ({}, None)


def test_secrets_are_taken_out_of_the_files_that_an_agent_leaves() -> None:
    rollout = attempt(files={"task": b"key=sk-0123456789", "log.txt": b"sk-0123456789"})
    clean = codec.codec_of(Rollout).without(
        rollout, lambda text: text.replace("sk-0123456789", "?")
    )
    assert clean.trajectory is not None
    assert clean.trajectory.files == {"task": b"key=?", "log.txt": b"?"}


@pytest.mark.parametrize("content", [{"hex": "00"}, {"base64": "%"}, {}])
def test_content_of_a_file_that_nobody_wrote_is_an_error(content: dict[str, str]) -> None:
    told = json.loads(codec.codec_of(Rollout).encode(attempt(files={"a": b"x"})))
    told["trajectory"]["files"]["a"] = content
    with pytest.raises(ValueError, match=r"base64|content of a file"):
        codec.codec_of(Rollout).decode(json.dumps(told))


def test_files_of_a_run_show_calls_of_tools_their_results_and_what_was_left() -> None:
    rollout = attempt(files={"out.txt": b"cup"}, exit_status=0, skill_opened=True)
    files = dict(conversation_files(RolloutFolder(Path("x")), rollout))
    (talk,) = [json.loads(data) for path, data in files.items() if path.suffix == ".json"]
    assert [each["role"] for each in talk] == ["assistant", "tool", "assistant"]
    assert talk[0]["tool_calls"] == [{"id": "c1", "name": "look", "arguments": '{"at": 1}'}]
    assert talk[1] == {
        "type": "message",
        "turn": 2,
        "role": "tool",
        "content": "a cup",
        "tool_call_id": "c1",
    }
    evaluation = Evaluation.of("s", "val", [rollout])
    row = json.loads(result_rows(evaluation, {"t": rollout}))
    assert (row["n_turns"], row["exit_status"], row["skill_opened"]) == (2, 0, True)
    assert row["files"] == {"out.txt": 3}
