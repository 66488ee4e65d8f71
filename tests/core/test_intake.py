from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillopt.core.intake import NESTING, read_file, read_json


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_json_nested_deeper_than_is_worked_with_is_refused() -> None:
    assert read_json(nested(NESTING)) == json.loads(nested(NESTING))
    for depth in (NESTING + 2, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            read_json(nested(depth))


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
