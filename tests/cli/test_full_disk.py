"""Standard output that cannot be written, as on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support_cli import Trained

FULL = Path("/dev/full")
COMMANDS = [
    "--help",
    "--version",
    "train --help",
    "config c.yaml",
    "show run",
    "show run --step 1",
    "runs",
    "diff run",
    "blame run",
    "model list",
    "check run",
]


def called(
    command: str, folder: Path, out: Path, err: Path | None, **variables: str
) -> tuple[int, str]:
    with out.open("w") as output, (err or Path(os.devnull)).open("w") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "skillopt", *command.split()],
            cwd=folder,
            stdout=output,
            stderr=subprocess.PIPE if err is None else errors,
            text=True,
            check=False,
            env={**os.environ, **variables},
        )
    return done.returncode, done.stderr or ""


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_that_cannot_be_written_is_an_error_with_its_reason(
    command: str, trained: Trained
) -> None:
    code, err = called(command, trained.folder, FULL, None)
    assert code == 1
    assert err.strip() == "error: cannot write to standard output: No space left on device"


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_whether_python_buffers_makes_no_difference(unbuffered: str, trained: Trained) -> None:
    code, err = called("show run", trained.folder, FULL, None, PYTHONUNBUFFERED=unbuffered)
    assert code == 1
    assert err.strip() == "error: cannot write to standard output: No space left on device"


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_messages_that_cannot_be_written_change_neither_result_nor_exit_code(
    trained: Trained, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert called("show run", trained.folder, out, FULL)[0] == 0
    assert "best" in out.read_text(encoding="utf-8")
    assert called("show nowhere", trained.folder, out, FULL)[0] == 1
