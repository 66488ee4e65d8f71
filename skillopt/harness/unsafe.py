"""Runs programs without a sandbox, for those who say that they know what that means."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skillopt.core.episode import LeftFiles, Workspace
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.errors import ConfigError
from skillopt.harness.running import GONE_WITHIN, WATCHED, Supervisor, lifeline, limited, started
from skillopt.harness.workspace import (
    read_files,
    read_inside,
    temporary_folder,
    write_files,
    write_inside,
)

_MARK: Final = "SKILLOPT_PROGRAM"
_PATH: Final = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Unconfined:
    """Not a sandbox, only in the place of one: a folder, a clean environment, limits.

    Its programs see all files and the network, and those that take trouble to hide outlive it.
    """

    prlimit: str | None

    @classmethod
    def create(cls) -> Unconfined:
        if sys.platform == "win32":
            raise ConfigError("on Windows, programs of models are run in WSL only, not here")
        return cls(shutil.which("prlimit"))

    @property
    def user(self) -> int | None:
        return None

    @asynccontextmanager
    async def open(self, files: Workspace | None = None) -> AsyncGenerator[OpenFolder, None]:
        files = files or Workspace()
        with temporary_folder() as folder:
            for part in ("work", "tmp"):
                (folder / part).mkdir()
            write_files(folder / "work", files)
            yield OpenFolder(self.prlimit, folder, files)

    async def run(
        self,
        command: Sequence[str],
        files: Workspace | None = None,
        limits: SandboxLimits | None = None,
        *,
        network: bool = False,
        sockets: Sequence[Path] = (),
        programs: Sequence[Path] = (),
    ) -> SandboxResult:
        async with self.open(files) as folder:
            result = await folder.run(
                command, limits, network=network, sockets=sockets, programs=programs
            )
            left = folder.collect()
        return replace(result, files=left.files, left_out=left.left_out)


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """The folder of an `Unconfined`."""

    prlimit: str | None
    folder: Path
    files: Workspace

    @property
    def place(self) -> str:
        return str(self.folder / "work")

    def read(self, path: str, most: int) -> bytes:
        return read_inside(self.folder / "work", path, most)

    def write(self, path: str, content: bytes) -> None:
        write_inside(self.folder / "work", path, content)

    def lend(self, name: str, content: bytes) -> str:
        write_inside(self.folder / "tmp", name, content)
        return str(self.folder / "tmp" / name)

    def collect(self) -> LeftFiles:
        return read_files(self.folder / "work", self.files)

    async def run(
        self,
        command: Sequence[str],
        limits: SandboxLimits | None = None,
        *,
        network: bool = False,
        sockets: Sequence[Path] = (),
        programs: Sequence[Path] = (),
    ) -> SandboxResult:
        del network, sockets, programs  # all of them are within reach
        limits = limits or SandboxLimits()
        mark = secrets.token_hex(16)
        environment = {
            "PATH": _PATH,
            "HOME": self.place,
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder / "tmp"),
            _MARK: mark,
        }

        async def end(process: Process) -> None:
            await _end(process, f"{_MARK}={mark}".encode())

        with lifeline() as life:
            start = time.monotonic()
            process = await started(
                asyncio.create_subprocess_exec(
                    *("/bin/sh", "-c", WATCHED, "sh"),
                    *(() if self.prlimit is None else limited(self.prlimit, limits)),
                    *command,
                    stdin=life,
                    stdout=PIPE,
                    stderr=PIPE,
                    env=environment,
                    cwd=self.place,
                    start_new_session=True,
                ),
                end,
            )
            supervisor = Supervisor(limits, self.folder, lambda: process.pid, end)
            stdout, stderr, ended_by = await supervisor.wait(process)
            seconds = time.monotonic() - start
        status = process.returncode or 0
        return SandboxResult(
            status=status if status >= 0 else 128 - status,
            stdout=stdout,
            stderr=stderr,
            seconds=seconds,
            ended_by=ended_by,
        )


async def _end(process: Process, mark: bytes) -> None:
    """Kill the process group, and whoever has left it but still has our mark."""
    patience = time.monotonic() + GONE_WITHIN
    while time.monotonic() < patience:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        others = list(_marked(mark))
        for pid in others:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not others:
            break
        await asyncio.sleep(0)
    await process.wait()


def _marked(mark: bytes) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                yield int(entry.parent.name)
