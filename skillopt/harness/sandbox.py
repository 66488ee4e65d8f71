"""A sandbox with bubblewrap: namespaces of its own, a read-only system, no network, limits."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from select import select
from typing import Final

from skillopt.aio import within
from skillopt.core.episode import LeftFiles, Workspace
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.errors import ConfigError
from skillopt.harness.running import GONE_WITHIN, WATCHED, Supervisor, lifeline, limited, started
from skillopt.harness.seccomp import filter_program
from skillopt.harness.workspace import (
    give_away,
    read_files,
    read_inside,
    temporary_folder,
    write_files,
    write_inside,
)

_WORK: Final = "/workspace"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS: Final = ("alternatives", "group", "ld.so.cache", "localtime", "passwd", "ssl")
_NETWORK_SETTINGS: Final = ("hosts", "nsswitch.conf", "resolv.conf")
"""Files of /etc that programs need; none of them holds a secret."""
_NOBODY: Final = 65534
_CHILD: Final = re.compile(rb'"child-pid": *(\d+)')
_LENDING: Final = """
while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done
user=$2
shift 2
exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
"""
"""Shows files of root to a user who may not reach them, as long as that user's processes run."""
_INSTALL: Final = (
    "install bubblewrap and util-linux (apt-get install bubblewrap util-linux, or dnf or pacman)"
)
_ELSEWHERE: Final = {
    "darwin": "on macOS, run skillopt in a Linux container (such as Docker) or a virtual machine",
    "win32": "on Windows, run skillopt in WSL",
}
_OTHERWISE: Final = (
    "--unsafe-no-sandbox runs such code without one: it can then read and change whatever you can"
)
_SCRATCH: Final = "/tmp"  # noqa: S108 - inside of the sandbox


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A `Sandbox`. Where we are root, programs run as nobody."""

    bwrap: str
    prlimit: str
    options: tuple[str, ...] = ()
    """What only some versions of bubblewrap know."""

    @classmethod
    def create(cls) -> Bubblewrap:
        """Raises `ConfigError` where its programs are not installed."""
        programs = {name: shutil.which(name) for name in ("bwrap", "prlimit")}
        missing = [name for name, path in programs.items() if path is None]
        if sys.platform != "linux":
            missing = ["bubblewrap"]
        if missing:
            help_ = _ELSEWHERE.get(sys.platform, _INSTALL)
            there = "cannot be found" if sys.platform == "linux" else "is a program of Linux"
            raise ConfigError(
                f"code that a model wrote is run in a sandbox only, and {' and '.join(missing)} "
                f"{there}; {help_}; {_OTHERWISE}"
            )
        bwrap = str(programs["bwrap"])
        told = subprocess.run([bwrap, "--help"], capture_output=True, check=False)  # noqa: S603
        known = [option for option in ("--disable-userns",) if option in told.stdout.decode()]
        return cls(bwrap, str(programs["prlimit"]), tuple(known))

    @property
    def user(self) -> int | None:
        return _NOBODY if os.geteuid() == 0 else None

    @asynccontextmanager
    async def open(self, files: Workspace | None = None) -> AsyncGenerator[BoxedFolder, None]:
        """A folder in which one program after another runs, each in a sandbox of its own."""
        files = files or Workspace()
        with temporary_folder() as folder:
            for part in ("work", "tmp", "shm", "nothing"):
                (folder / part).mkdir()
            write_files(folder / "work", files)
            give_away(folder, self.user)
            yield BoxedFolder(self, folder, files)

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
        async with self.open(files) as folder:
            result = await folder.run(
                command, limits, network=network, sockets=sockets, programs=programs
            )
            left = folder.collect()
        return replace(result, files=left.files, left_out=left.left_out)


@dataclass(frozen=True, slots=True)
class BoxedFolder:
    """The folder of a `Bubblewrap`, in which one program after another runs."""

    box: Bubblewrap
    folder: Path
    files: Workspace
    place: str = _WORK

    def read(self, path: str, most: int) -> bytes:
        return read_inside(self.folder / "work", path, most)

    def write(self, path: str, content: bytes) -> None:
        write_inside(self.folder / "work", path, content, self.box.user)

    def lend(self, name: str, content: bytes) -> str:
        write_inside(self.folder / "tmp", name, content, self.box.user)
        return f"{_SCRATCH}/{name}"

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
        limits = limits or SandboxLimits()
        shown = [path for path in programs if not path.is_relative_to("/usr")]
        user = None if shown else self.box.user  # who lends files has to be root at first
        lent = self._lent(shown)
        reading_end, writing_end = os.pipe()
        status = _Status(reading_end)
        with _drained(reading_end), lifeline() as life, self._filter() as filtered:
            start = time.monotonic()
            fds = (writing_end, *filtered)
            try:
                process = await started(
                    asyncio.create_subprocess_exec(
                        *self._lending(lent),
                        *self._around(fds, sockets, lent, network=network),
                        *limited(self.box.prlimit, limits),
                        *command,
                        stdin=life,
                        stdout=PIPE,
                        stderr=PIPE,
                        env={},
                        cwd="/",
                        pass_fds=fds,
                        user=user,
                        group=user,
                        extra_groups=None if user is None else [],
                        start_new_session=True,
                    ),
                    status.end,
                )
            finally:
                os.close(writing_end)
            supervisor = Supervisor(limits, self.folder, status.first, status.end)
            stdout, stderr, ended_by = await supervisor.wait(process)
            seconds = time.monotonic() - start
            if not ended_by and b"exit-code" not in status.read():
                raise ConfigError(
                    f"the sandbox cannot be made: {stderr.strip()}; {_INSTALL}, and allow user "
                    "namespaces (sysctl user.max_user_namespaces, or the settings of the "
                    f"container); {_OTHERWISE}"
                )
        return SandboxResult(
            status=process.returncode or 0,
            stdout=stdout,
            stderr=stderr,
            seconds=seconds,
            ended_by=ended_by,
        )

    def _lent(self, programs: Sequence[Path]) -> dict[Path, Path]:
        """Where the user of the sandbox finds what it may see, by the path that it has inside."""
        if self.box.user is None:
            return {path: path for path in programs}
        lent = {path: self.folder / f"lent-{number}" for number, path in enumerate(programs)}
        for path, place in lent.items():
            place.mkdir(exist_ok=True) if path.is_dir() else place.touch()
        return lent

    def _lending(self, lent: Mapping[Path, Path]) -> Iterator[str]:
        if lent and self.box.user is not None:
            yield from ("unshare", "--mount", "--propagation", "private")
            yield from ("/bin/sh", "-c", _LENDING, "sh")
            for path, place in lent.items():
                yield from (str(path), str(place))
            yield from ("--", str(self.box.user))

    def _around(
        self,
        fds: Sequence[int],
        sockets: Sequence[Path],
        lent: Mapping[Path, Path],
        *,
        network: bool,
    ) -> Iterator[str]:
        """The command that makes the sandbox; the program follows it."""
        folder, (status, *filters) = self.folder, fds
        yield from ("/bin/sh", "-c", WATCHED, "sh")
        yield from (self.box.bwrap, "--unshare-all", "--unshare-user", *self.box.options)
        yield from ("--die-with-parent", "--cap-drop", "ALL", "--clearenv")
        yield from ("--json-status-fd", str(status))
        for descriptor in filters:
            yield from ("--seccomp", str(descriptor))
        yield from ("--setenv", "PATH", _PATH, "--setenv", "HOME", _WORK)
        yield from ("--setenv", "LANG", "C.UTF-8", "--setenv", "TMPDIR", _SCRATCH)
        for path in _SYSTEM:
            if os.path.islink(path):  # noqa: PTH114 - usr/bin stays relative
                yield from ("--symlink", os.readlink(path), path)  # noqa: PTH115
            else:
                yield from ("--ro-bind-try", path, path)
        for path in _own_folders():
            yield from ("--ro-bind", f"{folder}/nothing", str(path))
        for name in (*_SETTINGS, *(_NETWORK_SETTINGS if network else ())):
            yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--bind", f"{folder}/shm", "/dev/shm")  # noqa: S108
        yield from ("--bind", str(folder / "tmp"), _SCRATCH)
        yield from ("--bind", f"{folder}/work", _WORK, "--chdir", _WORK)
        for path in map(str, sockets):
            yield from ("--ro-bind", path, path)
        for path, place in lent.items():
            yield from ("--ro-bind", str(place), str(path))
        # What bubblewrap makes itself lies in memory, which is not limited.
        yield from ("--remount-ro", "/dev", "--remount-ro", "/")
        if network:
            yield "--share-net"

    @contextmanager
    def _filter(self) -> Generator[Sequence[int], None, None]:
        """An open file with the filter of system calls, where there is one."""
        program = filter_program()
        if program is None:
            yield ()
            return
        path = self.folder / "filter"
        path.write_bytes(program)
        with path.open("rb") as file:
            yield (file.fileno(),)


def _own_folders() -> Iterator[Path]:
    """Folders with our files that lie among the programs of the system, and are hidden there."""
    for path in {Path.cwd(), Path.home(), Path(__file__).parent.parent}:
        real = path.resolve()
        if len(real.parts) > 3 and real.is_relative_to("/usr"):  # not /usr/bin itself
            yield real


class _Status:
    """What bubblewrap tells of itself at the other end of a pipe, which is never waited for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._told = b""
        os.set_blocking(descriptor, False)

    def read(self) -> bytes:
        with suppress(BlockingIOError):
            while chunk := os.read(self._descriptor, 4096):
                self._told += chunk
        return self._told

    def first(self) -> int | None:
        """The first process of the sandbox."""
        # Only bubblewrap itself writes here, and this before any program runs.
        named = _CHILD.search(self.read())
        return int(named[1]) if named else None

    async def end(self, process: Process) -> None:
        """If the first process of a sandbox is killed, the kernel ends the others before bwrap.

        Before bubblewrap names that one, no program runs, and what there is belongs to its process
        group.
        """
        if process.returncode is not None:
            return
        if (first := self.first()) is not None:
            with suppress(ProcessLookupError, TimeoutError):
                os.kill(first, signal.SIGKILL)
                await within(GONE_WITHIN, process.wait())
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@contextmanager
def _drained(status: int) -> Generator[None, None, None]:
    """A pipe that is closed in the end, when nobody is left who might write to it."""
    try:
        yield
    finally:
        patience = time.monotonic() + GONE_WITHIN
        while select([status], [], [], max(0.0, patience - time.monotonic()))[0]:
            if not os.read(status, 4096):
                break
        os.close(status)
