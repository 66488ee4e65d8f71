"""A sandbox with bubblewrap: namespaces of its own, a read-only system, no network, limits."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from asyncio import StreamReader
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from skillopt.aio import TaskGroup, join, map_all, within
from skillopt.core.episode import Workspace
from skillopt.core.sandbox import EndedBy, SandboxLimits, SandboxResult
from skillopt.errors import ConfigError
from skillopt.harness.workspace import read_files, write_files

_WORK: Final = "/workspace"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS: Final = ("alternatives", "group", "ld.so.cache", "localtime", "passwd", "ssl")
_NETWORK_SETTINGS: Final = ("hosts", "nsswitch.conf", "resolv.conf")
"""Files of /etc that programs need; none of them holds a secret."""
_NOBODY: Final = 65534
_CHILD: Final = re.compile(rb'"child-pid": *(\d+)')
_WATCHED: Final = """
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""
"""Ends the process group when the other end of standard input is gone, and so are we.

Bubblewrap does so by itself only once it has set up the sandbox, and hangs if that is too late.
"""
_LENDING: Final = """
while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done
user=$2
shift 2
exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
"""
"""Shows files of root to a user who may not reach them, as long as that user's processes run."""
_GONE_WITHIN: Final = 10.0
"""Seconds that the kernel may take to end the processes of a sandbox."""
_INSTALL: Final = (
    "install bubblewrap and util-linux (apt-get install bubblewrap util-linux, or dnf or pacman)"
)


class _OutputLimit(Exception):
    """A program wrote more than it may."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `Sandbox`. Where we are root, programs run as nobody."""

    bwrap: str
    prlimit: str

    @classmethod
    def create(cls) -> Bubblewrap:
        """Raises `ConfigError` where its programs are not installed."""
        programs = {name: shutil.which(name) for name in ("bwrap", "prlimit")}
        missing = [name for name, path in programs.items() if path is None]
        if missing:
            raise ConfigError(
                f"code that a model wrote is run in a sandbox only, and {' and '.join(missing)} "
                f"cannot be found; {_INSTALL}"
            )
        return cls(str(programs["bwrap"]), str(programs["prlimit"]))

    @property
    def user(self) -> int | None:
        return _NOBODY if os.geteuid() == 0 else None

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
        """Run a program in a new sandbox, which is gone afterwards with all its processes."""
        files, limits = files or Workspace(), limits or SandboxLimits()
        shown = [path for path in programs if not path.is_relative_to("/usr")]
        user = None if shown else self.user  # who lends files to another has to be root at first
        with _temporary_folder() as folder:
            for part in ("work", "tmp", "shm"):
                (folder / part).mkdir()
            write_files(folder / "work", files)
            _give_away(folder)
            lent = self._lent(folder, shown)
            reading_end, writing_end = os.pipe()
            with os.fdopen(reading_end, "rb") as status, _lifeline(reading_end) as life:
                start = time.monotonic()
                try:
                    process = await _started(
                        reading_end,
                        asyncio.create_subprocess_exec(
                            *self._lending(lent),
                            *self._around(folder, writing_end, sockets, lent, network=network),
                            *_limited(self.prlimit, limits),
                            *command,
                            stdin=life,
                            stdout=PIPE,
                            stderr=PIPE,
                            env={},
                            pass_fds=(writing_end,),
                            user=user,
                            group=user,
                            extra_groups=None if user is None else [],
                            start_new_session=True,
                        ),
                    )
                finally:
                    os.close(writing_end)
                stdout, stderr, ended_by = await _supervised(process, reading_end, limits)
                seconds = time.monotonic() - start
                os.set_blocking(reading_end, False)
                if not ended_by and b"exit-code" not in (status.read() or b""):
                    raise ConfigError(
                        f"the sandbox cannot be made: {stderr.strip()}; {_INSTALL}, and allow user "
                        "namespaces (sysctl user.max_user_namespaces, or the settings of the "
                        "container)"
                    )
            left = read_files(folder / "work", files)
        return SandboxResult(
            status=process.returncode or 0,
            stdout=stdout,
            stderr=stderr,
            files=left.files,
            left_out=left.left_out,
            seconds=seconds,
            ended_by=ended_by,
        )

    def _lent(self, folder: Path, programs: Sequence[Path]) -> dict[Path, Path]:
        """Where the user of the sandbox finds what it may see, by the path that it has inside."""
        if self.user is None:
            return {path: path for path in programs}
        lent = {path: folder / f"lent-{number}" for number, path in enumerate(programs)}
        for path, place in lent.items():
            place.mkdir() if path.is_dir() else place.touch()
        return lent

    def _lending(self, lent: Mapping[Path, Path]) -> Iterator[str]:
        if lent and self.user is not None:
            yield from ("unshare", "--mount", "--propagation", "private")
            yield from ("/bin/sh", "-c", _LENDING, "sh")
            for path, place in lent.items():
                yield from (str(path), str(place))
            yield from ("--", str(self.user))

    def _around(
        self,
        folder: Path,
        status_fd: int,
        sockets: Sequence[Path],
        lent: Mapping[Path, Path],
        *,
        network: bool,
    ) -> Iterator[str]:
        """The command that makes the sandbox; the program follows it."""
        yield from ("/bin/sh", "-c", _WATCHED, "sh")
        yield from (self.bwrap, "--unshare-all", "--unshare-user", "--die-with-parent")
        yield from ("--cap-drop", "ALL", "--clearenv")
        yield from ("--json-status-fd", str(status_fd))
        yield from ("--setenv", "PATH", _PATH, "--setenv", "HOME", _WORK)
        yield from ("--setenv", "LANG", "C.UTF-8", "--setenv", "TMPDIR", "/tmp")  # noqa: S108
        for path in _SYSTEM:
            if os.path.islink(path):  # noqa: PTH114 - usr/bin stays relative
                yield from ("--symlink", os.readlink(path), path)  # noqa: PTH115
            else:
                yield from ("--ro-bind-try", path, path)
        for name in (*_SETTINGS, *(_NETWORK_SETTINGS if network else ())):
            yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--bind", f"{folder}/shm", "/dev/shm")  # noqa: S108
        yield from ("--bind", f"{folder}/tmp", "/tmp")  # noqa: S108
        yield from ("--bind", f"{folder}/work", _WORK, "--chdir", _WORK)
        for path in map(str, sockets):
            yield from ("--ro-bind", path, path)
        for path, place in lent.items():
            yield from ("--ro-bind", str(place), str(path))
        # What bubblewrap makes itself lies in memory, which is not limited.
        yield from ("--remount-ro", "/dev", "--remount-ro", "/")
        if network:
            yield "--share-net"


def _limited(prlimit: str, limits: SandboxLimits) -> list[str]:
    return [
        prlimit,
        f"--as={limits.memory}",
        f"--nproc={limits.processes}",
        f"--fsize={limits.file_bytes}",
        "--core=0",
        "--",
    ]


@contextmanager
def _lifeline(status: int) -> Generator[int, None, None]:
    """A pipe whose other end is closed with the block, or when we are killed.

    Whoever watches it is gone afterwards, and with it the last one who might write a status.
    """
    reading_end, writing_end = os.pipe()
    try:
        yield reading_end
    finally:
        os.close(writing_end)
        os.close(reading_end)
        os.set_blocking(status, True)
        while os.read(status, 4096):
            pass


@contextmanager
def _temporary_folder() -> Generator[Path, None, None]:
    folder = Path(mkdtemp(prefix="skillopt-sandbox-"))
    try:
        yield folder
    finally:
        with suppress(OSError):
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the folder of a sandbox, however deep the program has nested its own.

    Folders in folders are moved up first: neither paths nor the number of open files grow.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        numbers = map(str, count())
        while names := os.listdir(top):  # noqa: PTH208 - of the open folder
            for name in names:
                _remove_level(top, name, numbers)
    finally:
        os.close(top)
    folder.rmdir()


def _remove_level(top: int, name: str, numbers: Iterator[str]) -> None:
    os.chmod(name, 0o700, dir_fd=top)  # the program may have taken our permission away
    level = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        with os.scandir(level) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.name, 0o700, dir_fd=level)
                    os.rename(entry.name, next(numbers), src_dir_fd=level, dst_dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=level)
    finally:
        os.close(level)
    os.rmdir(name, dir_fd=top)


def _give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)


async def _started(status: int, starting: Coroutine[object, object, Process]) -> Process:
    """The process; whoever is cancelled meanwhile leaves none behind."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _kill(await task, status)
        raise


async def _kill(process: Process, status: int) -> None:
    """Kill what is left of a sandbox, and wait until all its processes are gone.

    Meanwhile its output is read: a process counts as ended only when its pipes are empty. They are
    closed when the last process is gone, which may be after the first one.
    """
    async with TaskGroup() as group:
        streams = (process.stdout, process.stderr)
        drained = [group.start(_drain(stream)) for stream in streams if stream]
        if process.returncode is None:
            await _end(process, status)
        await within(_GONE_WITHIN, join(drained))


async def _drain(stream: StreamReader) -> None:
    while await stream.read(2**16):
        pass


async def _end(process: Process, status: int) -> None:
    """If the first process of a sandbox is killed, the kernel ends the others before bubblewrap.

    Before bubblewrap names that one, no program runs, and what there is belongs to its process
    group.
    """
    with suppress(ProcessLookupError, BlockingIOError):
        os.set_blocking(status, False)
        if named := _CHILD.search(os.read(status, 4096)):
            os.kill(int(named[1]), signal.SIGKILL)
            with suppress(TimeoutError):
                await within(_GONE_WITHIN, process.wait())
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _supervised(
    process: Process, status: int, limits: SandboxLimits
) -> tuple[str, str, EndedBy]:
    """The output, and the limit that ended the program; all its processes are gone."""
    streams = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream}

    async def read(stream: StreamReader) -> None:
        while chunk := await stream.read(2**16):
            streams[stream] += chunk
            if len(streams[stream]) > limits.output_bytes:
                raise _OutputLimit

    async def finished() -> None:
        await map_all(read, list(streams))
        await process.wait()

    ended_by: EndedBy = ""
    try:
        await within(limits.seconds, finished())
    except TimeoutError:
        ended_by = "seconds"
    except _OutputLimit:
        ended_by = "output"
    finally:
        await _kill(process, status)
    stdout, stderr = (
        bytes(data[: limits.output_bytes]).decode(errors="replace") for data in streams.values()
    )
    return stdout, stderr, ended_by
