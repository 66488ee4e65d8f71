from __future__ import annotations

import errno
import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillopt.core.chat import Reply, ToolCall, Usage
from skillopt.core.intake import (
    NESTING,
    REPLY_CHARS,
    Json,
    change_texts,
    clean_reply,
    is_blank,
    is_sound,
    json_lines,
    read_file,
    read_json,
    size,
    tagged,
    too_deep,
)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_json_nested_deeper_than_is_worked_with_is_refused() -> None:
    assert read_json(nested(NESTING)) == json.loads(nested(NESTING))
    mixed = '[{"a":' * NESTING + "1" + "}]" * NESTING
    for deep in (nested(NESTING + 2), nested(100_000), mixed):
        with pytest.raises(ValueError, match="nested too deeply"):
            read_json(deep)


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("large", errno.EFBIG, "it is larger than 4 bytes, the most that is read"),
        ("folder", errno.EISDIR, os.strerror(errno.EISDIR)),
        ("device", errno.EINVAL, "it is a pipe or a device, not a regular file"),
        ("absent", errno.ENOENT, os.strerror(errno.ENOENT)),
    ],
)
def test_a_file_that_is_not_read_is_named_with_the_reason(
    tmp_path: Path, name: str, code: int, reason: str
) -> None:
    (tmp_path / "large").write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    with pytest.raises(OSError) as refused:  # noqa: PT011 - compared whole below
        read_file(tmp_path / name, 4)
    found = refused.value
    assert (found.errno, found.strerror) == (code, reason)
    assert str(found.filename) == str(tmp_path / name)
    (tmp_path / "small").write_bytes(b"1234")
    assert read_file(tmp_path / "small", 4) == b"1234"


def test_a_pipe_that_nobody_writes_to_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read_file, pipe, 4)
        try:
            with pytest.raises(OSError, match="it is a pipe or a device") as refused:
                reading.result(timeout=60)
        finally:
            os.close(os.open(pipe, os.O_RDWR))  # whoever still waits is let go
    assert str(refused.value.filename) == str(pipe)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert read_json(f"[{','.join(['{}'] * 2 * NESTING)}]") == [{}] * 2 * NESTING


def test_half_a_surrogate_pair_is_replaced_in_keys_and_values() -> None:
    assert read_json('{"a\\ud800": ["\\udfff"]}') == {"a\ufffd": ["\ufffd"]}


USAGE = Usage(calls=1, input=5, output=6, cached=2, dollars=0.5, stored=1)


@pytest.mark.parametrize("count", ["input", "output", "cached", "stored"])
def test_tokens_that_cannot_be_true_count_as_unknown(count: str) -> None:
    for wrong in (-1, 10**12 + 1):
        cleaned = clean_reply(Reply(text="x", usage=replace(USAGE, **{count: wrong}))).usage
        assert cleaned == Usage(calls=1)
    kept = replace(USAGE, **{count: 10**12})
    assert clean_reply(Reply(text="x", usage=kept)).usage == kept


@pytest.mark.parametrize("dollars", [math.inf, -math.inf, math.nan, -0.01])
def test_dollars_that_cannot_be_true_count_as_none_and_tokens_stay(dollars: float) -> None:
    usage = replace(USAGE, dollars=dollars)
    assert clean_reply(Reply(text="x", usage=usage)).usage == replace(USAGE, dollars=0)
    assert not is_sound(usage)


def test_a_usage_is_sound_if_its_counts_are_whole_and_within_limits() -> None:
    assert is_sound(USAGE)
    assert is_sound(replace(USAGE, input=10**12, dollars=0))
    for count in ("calls", "input", "output", "cached", "estimated", "stored"):
        for wrong in (-1, 10**12 + 1, 0.5, None):
            changed: dict[str, Any] = {count: wrong}
            assert not is_sound(replace(USAGE, **changed)), changed
    assert not is_sound({"input": 5})


def test_a_reply_is_cut_to_its_limit_and_cleaned_in_every_text() -> None:
    half, whole = "a\ud800", "a\ufffd"
    call = ToolCall(half, half, half)
    reply = clean_reply(Reply(text=half, usage=USAGE, stop="end", calls=(call,), memo=half))
    cleaned = ToolCall(whole, whole, whole)
    assert reply == Reply(text=whole, usage=USAGE, stop="end", calls=(cleaned,), memo=whole)
    full = clean_reply(Reply(text="x" * REPLY_CHARS, stop="end"))
    assert (len(full.text), full.stop) == (REPLY_CHARS, "end")
    cut = clean_reply(Reply(text="x" * (REPLY_CHARS + 1), stop="end"))
    assert (len(cut.text), cut.stop) == (REPLY_CHARS, "length")


@pytest.mark.parametrize(
    ("count", "told"),
    [(1023, "1023 bytes"), (1024, "1 kB"), (1536, "1.5 kB"), (2**20, "1 MB"), (2**30, "1 GB")],
)
def test_a_limit_is_told_in_the_largest_unit_that_it_fills(count: int, told: str) -> None:
    assert size(count) == told


def test_what_stands_in_closed_tags_is_found_in_order() -> None:
    text = "<a>1</a> </a> <a>lost <A>2</a> <b>3</b> <a>4"
    assert tagged(text, "a") == ["1", "2"]
    assert tagged("</a>0<a>1</a>", "a") == ["1"]


def test_only_lines_that_are_json_objects_are_read() -> None:
    text = '{"a": 1}\nnoise\n  {"b": 2}\n[3]\n{"c": \n'
    assert list(json_lines(text)) == [{"a": 1}, {"b": 2}]


def test_texts_are_changed_everywhere_but_in_the_fields_that_are_kept() -> None:
    value: Json = {"id": "a", "text": ["b", {"id": {"text": "c"}}], "n": 1}
    assert change_texts(value, str.upper, {"id"}) == {
        "id": "a",
        "text": ["B", {"id": {"text": "C"}}],
        "n": 1,
    }
    assert change_texts(value, str, change_key=str.upper) == {
        "ID": "a",
        "TEXT": ["b", {"ID": {"TEXT": "c"}}],
        "N": 1,
    }


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_is_read_in_whatever_encoding_it_may_have(encoding: str) -> None:
    assert read_json('{"é": ["\U0001f600"]}'.encode(encoding)) == {"é": ["\U0001f600"]}


def test_what_is_no_json_object_is_passed_over_wherever_it_stands() -> None:
    assert list(json_lines('{"a": \n{"b": 1}\n{]\n{"c": 2}')) == [{"b": 1}, {"c": 2}]


def test_brackets_are_counted_as_deep_from_one_more_than_is_worked_with() -> None:
    innermost: Json = []
    for _ in range(NESTING):
        innermost = [innermost]
    assert not too_deep(innermost)
    assert too_deep([innermost])
    assert too_deep({"a": innermost})
    assert not too_deep("text")


def test_a_server_that_counts_nothing_is_believed() -> None:
    usage = Usage(calls=1, estimated=1)
    assert clean_reply(Reply(text="x", usage=usage)).usage == usage


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        ("", True),
        (" \n\t\u200b\u00a0\u2028\ufeff", True),
        ("\u3164\u2800\ufe0f\u115f", True),
        ("a", False),
        (" \u200b.", False),
        ("\ufe0fa", False),
    ],
)
def test_a_text_is_blank_if_it_shows_nothing(text: str, *, blank: bool) -> None:
    assert is_blank(text) is blank
