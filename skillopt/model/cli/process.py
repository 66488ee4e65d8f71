"""Runs a program once, without a shell, and kills it with all its children."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillopt.aio import within

_REAPING = 10.0
"""Seconds to wait for a killed program; one that is stuck in the kernel is left to it."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """A program that has ended by itself."""

    code: int
    out: str
    err: str


async def run(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: str, timeout: float
) -> ProcessResult:
    """Run to the end; past `timeout`, or when cancelled, the whole process group is killed.

    Raises:
        TimeoutError: It did not end in time.
        OSError: It could not be started.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
        # A group of its own: Ctrl-C is ours to pass on, and its children go when it goes.
        start_new_session=True,
    )
    try:
        data = stdin.encode("utf-8", "replace")
        out, err = await within(timeout, process.communicate(data))
    finally:
        await _end(process)
    return ProcessResult(process.returncode or 0, _text(out), _text(err))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the group, be it only the program's children."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        with suppress(TimeoutError):
            await within(_REAPING, process.wait())


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
