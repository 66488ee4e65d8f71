"""Tries to get out of a sandbox, to see that it holds."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from skillopt.core.episode import Workspace
from skillopt.core.ports import KeepsFolder, Sandbox
from skillopt.core.sandbox import SandboxLimits
from skillopt.errors import ConfigError
from skillopt.harness.tools import interpreter

_LIMITS: Final = SandboxLimits(seconds=60, processes=32, disk_bytes=2**28)
_ATTEMPTS: Final = r"""
import ctypes, json, os, socket, sys, time
given = json.load(open("given.json"))
told = {}

def attempt(name):
    def run(function):
        try:
            told[name] = ["done", str(function())]
        except BaseException as error:
            told[name] = ["refused", getattr(error, "strerror", None) or str(error)]
    return run

def read(path):
    text = open(path).read() if os.path.isfile(path) else " ".join(os.listdir(path))
    return f"read {len(text)} characters of {path}"

for name, path in given["places"].items():
    attempt(f"read {name}")(lambda: read(path))

def connect(*where, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s:
        s.settimeout(2)
        s.connect(where[0])
        s.send(b"out")
        return "connected"

@attempt("the door")
def _():
    return connect(given["door"], family=socket.AF_UNIX)

@attempt("open a TCP connection to this machine")
def _():
    return connect(("127.0.0.1", given["tcp"]))

@attempt("open a TCP connection to elsewhere")
def _():
    return connect(("192.0.2.1", 80))

# Whether it arrives, only the other side knows.
attempt("")(lambda: connect(("127.0.0.1", given["udp"]), kind=socket.SOCK_DGRAM))

@attempt("connect to an abstract unix socket")
def _():
    return connect("\0" + given["abstract"], family=socket.AF_UNIX)

@attempt("connect to a unix socket that is not the door")
def _():
    return connect(given["other"], family=socket.AF_UNIX)

@attempt("open a socket to the host of this machine (vsock)")
def _():
    socket.socket(40, socket.SOCK_STREAM)

@attempt("open a raw socket")
def _():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)

@attempt("see processes of this machine in /proc")
def _():
    for number in os.listdir("/proc"):
        if number.isdigit() and int(number) > 100:
            return f"process {number}"
    raise ProcessLookupError("only its own")

@attempt("kill the parent")
def _():
    if os.path.exists(f"/proc/{given['pid']}"):
        raise ProcessLookupError("a process of its own has that number")
    os.kill(given["pid"], 9)

@attempt("change the system")
def _():
    open("/usr/skillopt-was-here", "w")

@attempt("change the kernel's settings")
def _():
    open("/proc/sys/kernel/hostname", "w").write("x")

@attempt("make a device")
def _():
    os.mknod("device", 0o20666, os.makedev(1, 1))

@attempt("make a namespace with more rights")
def _():
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

@attempt("hold memory that no limit counts")
def _():
    os.memfd_create("x")

@attempt("write a file of 10 GB")
def _():
    with open("large", "wb") as file:
        file.seek(10 * 10**9)
        file.write(b"x")
        file.flush()

@attempt("link a file of others into the workspace")
def _():
    os.link("/etc/passwd", "hard")

for name, path in given["places"].items():
    os.symlink(path, "link to " + name)
os.symlink("/", "root")
os.mkfifo("pipe")
os.mkdir("deep")
os.chdir("deep")
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
os.chdir("/workspace")

@attempt("start processes without end")
def _():
    for number in range(10000):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)

json.dump(told, open("told.json", "w"))
"""
_DAEMON: Final = r"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@dataclass(frozen=True, slots=True)
class EscapeAttempt:
    what: str
    refused: bool
    found: str


async def try_escapes(sandbox: Sandbox, run_folder: Path | None = None) -> list[EscapeAttempt]:
    """What came of each attempt; the sandbox holds if all are refused.

    Raises:
        ConfigError: There is no sandbox here, or nothing to try it with.
    """
    mark = f"escape-{secrets.token_hex(8)}"
    with _readable_folder() as folder, _readable_folder() as hall:
        gold = folder / "gold.json"
        gold.write_text(mark, encoding="utf-8")
        places = {
            "the right answers": gold,
            "the home": Path.home(),
            "the run directory": run_folder or folder,
            "the variables of this process": Path(f"/proc/{os.getpid()}/environ"),
        }
        async with _neighbour(sandbox, mark) as other:
            if other:
                places["another workspace"] = other
            told = {"places": {key: str(path) for key, path in places.items()}}
            with _listening(folder, hall, sandbox.user) as sockets:
                given = {**told, **sockets.told, "pid": os.getpid()}
                attempts = await _told(sandbox, given, hall / "door", mark)
                arrived = sockets.packet()
    packet = EscapeAttempt("send a UDP packet", not arrived, "it arrived" * arrived or "it is lost")
    return [packet, *attempts, await _daemon(sandbox, mark)]


@contextmanager
def _readable_folder() -> Generator[Path, None, None]:
    """One that everybody may read, so that only the sandbox can refuse it."""
    with TemporaryDirectory(prefix="skillopt-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def _told(
    sandbox: Sandbox, given: Mapping[str, object], door: Path, mark: str
) -> list[EscapeAttempt]:
    python, needed = interpreter("")
    files = Workspace(
        files={"main.py": _ATTEMPTS.encode(), "given.json": json.dumps(given).encode()},
        collect=("*",),
    )
    result = await sandbox.run([python, "main.py"], files, _LIMITS, sockets=[door], programs=needed)
    if "told.json" not in result.files:
        raise ConfigError(f"the sandbox was not tried: {result.stderr.strip() or result.ended_by}")
    told = cast("dict[str, list[str]]", json.loads(result.files["told.json"]))
    told.pop("")
    open_door = told.pop("the door")
    if open_door[0] != "done":
        raise ConfigError(f"the sandbox has no door to a socket that it is given: {open_door[1]}")
    leaked = [
        name
        for name, content in result.files.items()
        if name not in ("main.py", "given.json", "told.json") and mark.encode() in content
    ]
    return [
        *(EscapeAttempt(what, how == "refused", found) for what, (how, found) in told.items()),
        EscapeAttempt(
            "have links followed when files are read out",
            not leaked,
            ", ".join(leaked) or "links, pipes and deep folders are not read",
        ),
    ]


async def _daemon(sandbox: Sandbox, mark: str) -> EscapeAttempt:
    """A process that leaves its session and closes all its files; the program ends before it."""
    python, needed = interpreter("")
    files = Workspace(files={"main.py": _DAEMON.encode()})
    await sandbox.run([python, "main.py", mark], files, _LIMITS, programs=needed)
    left = _processes(mark.encode())
    found = f"process {', '.join(left)}" if left else "no process is left"
    return EscapeAttempt("leave a process behind", not left, found)


def _processes(mark: bytes) -> list[str]:
    """Those that have this in their command line."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if mark in entry.read_bytes():
                found.append(entry.parent.name)
    return found


@dataclass(frozen=True, slots=True)
class _Listeners:
    told: Mapping[str, object]
    """Where they listen."""
    udp: socket.socket

    def packet(self) -> bool:
        """Whether somebody has sent one."""
        with suppress(BlockingIOError):
            return bool(self.udp.recv(9))
        return False


@contextmanager
def _listening(folder: Path, hall: Path, user: int | None) -> Generator[_Listeners, None, None]:
    """Sockets of this machine that a program might reach, and the door."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as door,
        socket.socket(socket.AF_UNIX) as other,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0)
        name = f"skillopt-{secrets.token_hex(8)}"
        abstract.bind(f"\0{name}")
        paths = {"door": hall / "door", "other": folder / "socket"}
        for listener, path in zip((door, other), paths.values(), strict=True):
            listener.bind(str(path))
            path.chmod(0o666)
            if user is not None:
                os.chown(path, user, -1)
        for listener in (abstract, door, other):
            listener.listen()
        ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
        told = {**ports, "abstract": name, **{key: str(path) for key, path in paths.items()}}
        yield _Listeners(told, udp)


@asynccontextmanager
async def _neighbour(sandbox: Sandbox, mark: str) -> AsyncGenerator[Path | None, None]:
    """The folder of another workspace, where the sandbox can keep one."""
    if not isinstance(sandbox, KeepsFolder):
        yield None
        return
    async with sandbox.open(Workspace(files={"answer.txt": mark.encode()})) as other:
        yield getattr(other, "folder", None)
