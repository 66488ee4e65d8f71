"""Runs a program under limits, and leaves no process of it behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from asyncio import StreamReader
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

from skillopt.aio import TaskGroup, in_thread, join, map_all, within
from skillopt.core.sandbox import EndedBy, SandboxLimits
from skillopt.harness.workspace import used_disk

GONE_WITHIN: Final = 10.0
"""Seconds that the kernel may take to end the processes of a program."""
_LOOK: Final = 0.25
"""Seconds between two looks at what a program uses."""
_SHARE: Final = 10
"""Looking takes at most one part in so many of the time."""
_RESERVE: Final = 2**28
"""Bytes of a disk that are left to others, however much a program may use."""


WATCHED: Final = """
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""
"""For `sh -c`: ends the process group when the other end of standard input is gone, and so are we.

Bubblewrap does so by itself only once it has set up the sandbox, and hangs if that is too late.
"""


@contextmanager
def lifeline() -> Generator[int, None, None]:
    """A pipe whose other end is closed with the block, or when we are killed."""
    reading_end, writing_end = os.pipe()
    try:
        yield reading_end
    finally:
        os.close(writing_end)
        os.close(reading_end)


class _Exceeded(Exception):
    """A program uses more than it may."""

    def __init__(self, limit: EndedBy) -> None:
        super().__init__(limit)
        self.limit: EndedBy = limit


def limited(prlimit: str, limits: SandboxLimits) -> list[str]:
    """The command that sets limits of the kernel for the program that follows it."""
    import resource  # not on every system

    def allowed(kind: int, wanted: int) -> int:
        """What is wanted, or less where we ourselves may not have so much."""
        _, most = resource.getrlimit(kind)
        return wanted if most == resource.RLIM_INFINITY else min(wanted, most)

    cpu = limits.seconds if limits.cpu_seconds is None else limits.cpu_seconds
    return [
        prlimit,
        f"--as={allowed(resource.RLIMIT_AS, limits.memory)}",
        f"--cpu={allowed(resource.RLIMIT_CPU, ceil(cpu))}",
        f"--nproc={allowed(resource.RLIMIT_NPROC, limits.processes)}",
        f"--nofile={allowed(resource.RLIMIT_NOFILE, limits.open_files)}",
        f"--fsize={allowed(resource.RLIMIT_FSIZE, limits.file_bytes)}",
        "--core=0",
        "--",
    ]


async def started(
    starting: Coroutine[object, object, Process], end: Callable[[Process], Awaitable[None]]
) -> Process:
    """The process; whoever is cancelled meanwhile leaves none behind."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await kill(await task, end)
        raise


async def kill(process: Process, end: Callable[[Process], Awaitable[None]]) -> None:
    """End what is left of a program, and wait until all its processes are gone.

    Meanwhile its output is read: a process counts as ended only when its pipes are empty. They are
    closed when the last process is gone, which may be after the first one.
    """
    async with TaskGroup() as group:
        streams = (process.stdout, process.stderr)
        drained = [group.start(_drain(stream)) for stream in streams if stream]
        await end(process)
        await within(GONE_WITHIN, join(drained))


async def _drain(stream: StreamReader) -> None:
    while await stream.read(2**16):
        pass


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Waits for a program, reads its output and ends it where it uses more than it may."""

    limits: SandboxLimits
    folder: Path
    """Where all its files lie."""
    first: Callable[[], int | None]
    """The process that all others descend from, once it is known."""
    end: Callable[[Process], Awaitable[None]]
    """Ends all of them."""

    async def wait(self, process: Process) -> tuple[str, str, EndedBy]:
        """The output, and the limit that ended the program; all its processes are gone."""
        streams = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream}
        most = self.limits.output_bytes

        async def read(stream: StreamReader) -> None:
            while chunk := await stream.read(2**16):
                streams[stream] += chunk
                if len(streams[stream]) > most:
                    raise _Exceeded("output")

        async def finished() -> None:
            await map_all(read, list(streams))
            await process.wait()

        ended_by: EndedBy = ""
        try:
            await within(self.limits.seconds, self._watched(process, finished()))
        except TimeoutError:
            ended_by = "seconds"
        except _Exceeded as exceeded:
            ended_by = exceeded.limit
        finally:
            await kill(process, self.end)
        stdout, stderr = (bytes(data[:most]).decode(errors="replace") for data in streams.values())
        return stdout, stderr, ended_by

    async def _watched(self, process: Process, work: Coroutine[object, object, None]) -> None:
        done = asyncio.Event()

        async def worked() -> None:
            await work
            done.set()

        async with TaskGroup() as group:
            await join([group.start(worked()), group.start(self._watch(process, done))])

    async def _watch(self, process: Process, done: asyncio.Event) -> None:
        """Raise as soon as disk or memory are used up; end what the program has left behind."""
        wait = _LOOK
        while True:
            with suppress(TimeoutError):
                await within(wait, done.wait())
                return
            if process.returncode is not None:
                await self.end(process)
                continue
            start = time.monotonic()
            if await in_thread(self._disk_is_used):
                raise _Exceeded("disk")
            if resident_bytes(self.first()) > self.limits.total_memory:
                raise _Exceeded("memory")
            wait = max(_LOOK, _SHARE * (time.monotonic() - start))

    def _disk_is_used(self) -> bool:
        if shutil.disk_usage(self.folder).free < _RESERVE:
            return True
        files, used = used_disk(self.folder)
        return files > self.limits.files or used > self.limits.disk_bytes


def resident_bytes(first: int | None) -> int:
    """Memory that a process and all that descend from it hold, where the system tells."""
    held, left = 0, [] if first is None else [first]
    while left:
        pid = left.pop()
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines():
                if line.startswith(("RssAnon:", "RssShmem:")):
                    held += int(line.split()[1]) * 1024
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - one name is enough
                children = Path(f"/proc/{pid}/task/{task}/children").read_text("ascii")
                left += map(int, children.split())
    return held
