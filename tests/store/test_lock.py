from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt.errors import StoreError
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock

_HOLDER = """
import sys
from pathlib import Path
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock

with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_kept_out_and_told_who_is_there(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        with (
            pytest.raises(
                StoreError, match=rf"another process .*pid {other.pid} on .* since 20\d\d-"
            ),
            RunLock(tmp_path),
        ):
            pass
        other.communicate("")
    with RunLock(tmp_path):
        pass


def test_a_killed_run_leaves_no_lock_behind(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        other.kill()
    assert (tmp_path / ".lock").exists()
    with RunLock(tmp_path):
        assert f"pid {os.getpid()} on" in (tmp_path / ".lock").read_text(encoding="utf-8")


def test_a_lock_that_was_released_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "run"
    with RunLock(folder):
        assert folder.is_dir()
    assert not folder.exists()
    folder.mkdir()
    with RunLock(folder):
        (folder / "events.jsonl").touch()
    assert sorted(each.name for each in folder.iterdir()) == [".skillopt", "events.jsonl"]


def test_an_empty_folder_that_was_there_before_stays(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_a_place_that_cannot_be_locked_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file is a file"), RunLock(tmp_path / "file"):
        pass
    layout = Layout(tmp_path / "run")
    layout.lock.mkdir(parents=True)
    layout.mark.touch()
    with pytest.raises(StoreError, match="cannot write"), RunLock(layout.root):
        pass
