"""Temporary folders are gone in the end, also those of a process that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

import pytest

from skillopt.core.temporary import swept

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a shell")

KILLED = """
import os, signal, sys, tempfile
from pathlib import Path
from skillopt.core.temporary import swept
with swept("sandbox") as first, swept("model") as second:
    for prefix in (first, second):
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        (folder / "deep").chmod(0)
    Path(tempfile.gettempdir(), "of-somebody-else").mkdir()
    print("ready", flush=True)
    os.kill(os.getpid(), signal.{signal})
"""


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_what_a_killed_process_leaves_is_removed_and_nothing_else(
    signal: str, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED.format(signal=signal)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,  # open until the folders are gone: who leaves is known otherwise
        stderr=subprocess.DEVNULL,
    ):
        end = monotonic() + 60
        while [path.name for path in tmp_path.iterdir()] != ["of-somebody-else"]:
            assert monotonic() < end, list(tmp_path.iterdir())


def test_nothing_is_left_running_or_open_afterwards() -> None:
    def state() -> tuple[list[str], list[str]]:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        return children.read_text().split(), sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    before = state()
    with swept("a") as prefix, swept("b") as other:
        assert Path(tempfile.gettempdir(), prefix).name.startswith("skillopt-a-")
        assert prefix.removeprefix("skillopt-a-") == other.removeprefix("skillopt-b-")
        assert len(state()[0]) == len(before[0]) + 1
    assert state() == before
