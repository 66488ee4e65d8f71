"""Work in other processes: patterns that cannot block a run, and the Pythons of a sandbox.

Python's matcher cannot be interrupted and holds the interpreter's lock, so a slow pattern would
stop every other attempt. Therefore it runs in a process of its own, which can be killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from skillopt.aio import within
from skillopt.errors import ConfigError, EnvironmentFault

_SCRIPT = """\
import json, re, sys
pattern, flags, text = json.load(sys.stdin)
sys.stdout.write("yes" if re.search(pattern, text, flags) else "no")
"""


async def found(
    pattern: str, text: str, *, case_sensitive: bool = False, seconds: float = 5.0
) -> bool:
    """Whether the pattern matches somewhere in the text; a fault if that takes too long."""
    flags = 0 if case_sensitive else re.IGNORECASE.value
    try:
        answer = await ask_process(_SCRIPT, [pattern, flags, text], seconds, packages=False)
    except TimeoutError:
        raise EnvironmentFault(
            f"the pattern {pattern!r} took over {seconds:g} s; write it without nested repetition"
        ) from None
    if answer not in ("yes", "no"):
        raise EnvironmentFault(f"the pattern {pattern!r} could not be tried")
    return answer == "yes"


async def ask_process(
    script: str, question: object, seconds: float, *, packages: bool = True
) -> str:
    """What a script of ours writes about a question, which it reads as JSON.

    `TimeoutError` if it takes too long: then its process is killed.
    """
    flags = ("-I",) if packages else ("-I", "-S")
    starting = asyncio.create_subprocess_exec(
        sys.executable, *flags, "-c", script, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    async with running(starting) as process:
        answer, _ = await within(seconds, process.communicate(json.dumps(question).encode()))
    return answer.decode("utf-8", "replace")


@asynccontextmanager
async def running(starting: Coroutine[Any, Any, Process]) -> AsyncGenerator[Process, None]:
    """A process that is gone when the block is left, also if that happens while it starts."""
    task = asyncio.ensure_future(starting)
    try:
        yield await asyncio.shield(task)
    finally:
        await asyncio.shield(_ended(task))


async def _ended(starting: asyncio.Future[Process]) -> None:
    with suppress(OSError):  # it could not be started
        process = await starting
        kill(process)
        await process.wait()


def kill(process: Process) -> None:
    """Kill a process, if it has not ended.

    Unlike `process.kill`, it never asks for the exit code, which only the loop may take.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.kill(process.pid, signal.SIGKILL)


def python_folders(prefix: Path) -> list[Path]:
    """The folders that a sandbox has to show: a virtual environment, and what it is made from.

    Raises `ConfigError` where they would show the user's files, too.
    """
    found = dict.fromkeys((prefix, (prefix / "bin/python").resolve().parent.parent))
    for folder in found:
        if Path.cwd().is_relative_to(folder) or Path.home().is_relative_to(folder):
            raise ConfigError(
                f"code of the target would see all of {folder}, where {prefix}/bin/python needs "
                "it; use a Python in a folder of its own, such as that of a virtual environment"
            )
    return list(found)
