"""Runs a program once, without a shell, in a home of its own; kills it with its children."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from skillopt.aio import within

_KEYCHAINS: Final = "Library/Keychains"
"""Where macOS keeps what programs would else keep in a file."""
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
    texts = (data.decode("utf-8", "replace") for data in (out, err))
    return ProcessResult(process.returncode or 0, *texts)


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


@dataclass(frozen=True, slots=True)
class Owner:
    """What a program would find of the user's if it were run by hand."""

    home: Path
    folder: Path
    """The program's own folder."""
    cache: Path
    """Where programs keep what they can make again, such as their unpacked selves."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs for one call."""

    root: Path
    folder: Path
    """The program's own folder, as far as it knows."""
    owner: Owner

    @property
    def work(self) -> Path:
        """The current folder: empty."""
        return self.root / "work"

    @property
    def side(self) -> Path:
        """For files that go to the program or come from it."""
        return self.root / "side"

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that lead the program here and not to the user's own files."""
        home, temporary = str(self.root / "home"), str(self.root / "tmp")
        return {
            "HOME": home,
            "USERPROFILE": home,
            "TMPDIR": temporary,
            "TEMP": temporary,
            "TMP": temporary,
        }


@contextmanager
def temporary_home(owner: Owner, folder: str, credentials: Iterable[str]) -> Generator[Place]:
    """A home in which the program's `folder` holds links to these files of the user's.

    A program that renews a credential writes through the link; if it puts a new file in place of
    the link, that file becomes the user's, whose old one may no longer be valid.
    """
    with TemporaryDirectory(prefix="skillopt-", ignore_cleanup_errors=True) as path:
        root = Path(path)
        place = Place(root, root / "home" / folder, owner)
        for directory in (place.folder, place.work, place.side, root / "tmp"):
            directory.mkdir(parents=True, mode=0o700)
        _link(owner.home / _KEYCHAINS, root / "home" / _KEYCHAINS)
        lent = [(owner.folder / name, place.folder / name) for name in credentials]
        for own, here in lent:
            _link(own, here)
        try:
            yield place
        finally:
            for own, here in lent:
                _keep(own, here)


def _link(own: Path, here: Path) -> None:
    if own.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        try:
            here.symlink_to(own.absolute())
        except OSError:  # Windows, for users without the right to make links
            if own.is_file():
                shutil.copyfile(own, here)


def _keep(own: Path, here: Path) -> None:
    """Take over a file that the program put in place of the link, unless it is half written."""
    if here.is_symlink() or not own.is_file():
        return
    with suppress(OSError, ValueError, RecursionError):
        new = here.read_bytes()
        json.loads(new)
        if new != own.read_bytes():
            fresh = own.with_name(f".{own.name}.skillopt")
            fresh.touch(mode=0o600)
            fresh.write_bytes(new)
            os.replace(fresh, own.resolve())  # noqa: PTH105 - the user's file may be a link itself
