"""Programs in the sandbox see and change nothing outside of it, and leave nothing running."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import skillopt
from skillopt.core.episode import Workspace
from skillopt.core.ports import Environment, Sandbox, UsesSandbox
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.sandbox import SandboxLimits
from skillopt.core.task import Split, Task
from skillopt.errors import ConfigError, EnvironmentFault
from skillopt.harness.sandbox import Bubblewrap

try:
    BOX = Bubblewrap.create()
except ConfigError as reason:
    pytest.skip(str(reason), allow_module_level=True)
QUICK = SandboxLimits(seconds=0.5)


def script(code: str, collect: Sequence[str] = ()) -> Workspace:
    return Workspace(files={"main.py": code.encode()}, collect=tuple(collect))


async def test_a_program_gets_its_files_and_what_it_leaves_is_read_out() -> None:
    code = "open('out.txt','w').write(open('in/a.txt').read().upper()); print('done'); exit(3)"
    files = Workspace(files={"main.py": code.encode(), "in/a.txt": b"abc"}, collect=("*.txt",))
    result = await BOX.run(["python3", "main.py"], files)
    assert (result.status, result.stdout, result.stderr) == (3, "done\n", "")
    assert result.files == {"in/a.txt": b"abc", "out.txt": b"ABC"}
    assert result.ended_by == ""
    assert result.seconds > 0


async def test_a_program_sees_neither_our_files_nor_variables_nor_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-1")
    (tmp_path / "key.txt").write_text("sk-2")
    code = f"""
import os
places = {str(tmp_path)!r}, "/root", "/home", "/etc/shadow"
print([path for path in places if os.path.exists(path)])
print("SECRET_KEY" in os.environ)
print(max(int(name) for name in os.listdir("/proc") if name.isdigit()) < 10)
"""
    result = await BOX.run(["python3", "main.py"], script(code))
    assert result.stdout.split("\n")[:3] == ["[]", "False", "True"], result.stderr


@pytest.mark.parametrize("place", ["/", "/usr", "/dev", "/etc", "/proc/sys/kernel"])
async def test_the_system_cannot_be_changed(place: str) -> None:
    result = await BOX.run(["touch", f"{place}/skillopt-was-here"])
    assert result.status != 0
    assert result.stderr.startswith("touch: cannot touch")


async def test_there_is_a_temporary_folder_that_nobody_else_sees() -> None:
    first = await BOX.run(["sh", "-c", "echo x > /tmp/mine; echo x > /dev/shm/mine; ls /tmp"])
    second = await BOX.run(["sh", "-c", "ls /tmp /dev/shm"])
    assert first.stdout == "mine\n"
    assert "mine" not in second.stdout


async def test_there_is_no_network_not_even_to_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"
        alone = await BOX.run(["python3", "main.py"], script(code))
        joined = await BOX.run(["python3", "main.py"], script(code), network=True)
    assert "OSError" in alone.stderr or "Error" in alone.stderr
    assert alone.status == 1
    assert joined.status == 0, joined.stderr


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[Path, asyncio.Event], None]:
    """A unix socket that greets whoever connects, and whether somebody did."""
    connected = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.write(b"hello")
        writer.close()

    with TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101
        path = Path(folder) / "s"
        async with await asyncio.start_unix_server(serve, path):
            path.chmod(0o666)
            yield path, connected


GREETED = "import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r}); print(s.recv(9))"


async def test_a_unix_socket_can_be_shown_to_programs() -> None:
    async with listening() as (path, _):
        code = GREETED.format(path=str(path))
        result = await BOX.run(["python3", "main.py"], script(code), sockets=[path])
    assert result.stdout == "b'hello'\n", result.stderr


async def test_programs_that_are_installed_where_only_we_can_read_can_be_shown(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    tool, other = tmp_path / "own" / "tool", tmp_path / "own" / "other"
    for folder in (tool, other):
        folder.mkdir()
        (folder / "greet").write_text("#!/bin/sh\necho hello; touch $0 || ls ${0%/*/*}\n")
        (folder / "greet").chmod(0o755)
    before = mounts()
    result = await BOX.run([str(tool / "greet")], programs=[tool, Path("/usr/bin")])
    assert result.stdout == "hello\ntool\n", result.stderr
    assert "cannot touch" in result.stderr
    alone = await BOX.run([str(tool / "greet")], programs=[tool / "greet"])
    assert alone.stdout.startswith("hello\n"), alone.stderr
    assert mounts() == before


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def running(mark: str) -> bool:
    """Whether a process has this in its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if mark.encode() in entry.read_bytes():
                return True
    return False


async def test_time_is_limited_and_no_process_survives() -> None:
    code = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 9)
        time.sleep(30)
print("begun", flush=True)
time.sleep(30)
"""
    mark = f"main-{os.getpid()}-{os.urandom(4).hex()}.py"
    files = Workspace(files={mark: code.encode()}, collect=("*",))
    result = await BOX.run(["python3", mark], files, QUICK)
    assert result.ended_by == "seconds"
    assert 0.5 <= result.seconds < 10
    assert result.stdout == "begun\n"
    assert list(result.files) == [mark]
    assert not running(mark)


async def test_a_process_left_behind_ends_with_the_program() -> None:
    result = await BOX.run(["sh", "-c", "sleep 60 & echo done"])
    assert (result.status, result.stdout, result.ended_by) == (0, "done\n", "")
    assert result.seconds < 30


async def test_output_is_limited() -> None:
    limits = SandboxLimits(output_bytes=1000)
    result = await BOX.run(["sh", "-c", "while :; do echo flood; done"], limits=limits)
    assert result.ended_by == "output"
    assert len(result.stdout) == 1000


async def test_a_flood_is_ended_at_once() -> None:
    flood = """
import fcntl, os
fcntl.fcntl(1, 1031, 2**20)  # F_SETPIPE_SZ: much is left in the pipe
while True:
    os.write(1, b"x" * 2**20)
"""
    result = await BOX.run(["python3", "main.py"], script(flood), SandboxLimits(output_bytes=10))
    assert (result.ended_by, result.stdout) == ("output", "x" * 10)
    assert result.seconds < 8


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that programs in a sandbox can get to, whoever they run as; pytest's are private."""
    with TemporaryDirectory(prefix="skillopt-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def places(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folders of sandboxes are made in a place where none may be left in the end."""
    monkeypatch.setattr("tempfile.tempdir", str(reachable))
    yield
    assert not list(reachable.iterdir())


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("place", [".", "/tmp"])
async def test_folders_may_be_nested_deeply_and_all_are_removed(place: str) -> None:
    code = f"""
import os
open("out.txt", "w").write("1")
os.symlink("/", "link")
os.chdir({place!r})
for _ in range(2500):
    os.mkdir("d")
    os.chdir("d")
open("f", "w").write("1")
"""
    result = await BOX.run(["python3", "main.py"], script(code, ["*"]))
    assert (result.status, result.stderr) == (0, "")
    assert result.files.keys() == {"main.py", "out.txt"}
    deep = {"/".join("d" * 101): "in more than 100 folders"} if place == "." else {}
    assert result.left_out == {"link": "not a regular file", **deep}


@pytest.mark.usefixtures("places")
async def test_folders_that_nobody_may_read_are_removed_too() -> None:
    command = "mkdir -p a/b/c; touch a/b/c/f; chmod 0 a/b/c a/b a ."
    result = await BOX.run(["sh", "-c", command], Workspace(collect=("*",)))
    assert (result.status, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("code", "limits", "told"),
    [
        ("x = bytearray(10**9)", SandboxLimits(memory=2**28), "MemoryError"),
        ("open('f', 'wb').write(b'x' * 10**6)", SandboxLimits(file_bytes=1000), "File too large"),
        (
            "import os, time\nfor _ in range(50):\n    if os.fork() == 0: time.sleep(9)",
            SandboxLimits(processes=10, seconds=20),
            "Resource temporarily unavailable",
        ),
    ],
)
async def test_memory_files_and_processes_are_limited(
    code: str, limits: SandboxLimits, told: str
) -> None:
    result = await BOX.run(["python3", "main.py"], script(code), limits)
    assert result.status == 1
    assert told in result.stderr


@pytest.mark.parametrize("name", ["seconds", "memory", "processes", "file_bytes", "output_bytes"])
def test_a_limit_that_allows_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SandboxLimits(**{name: 0})


async def test_a_program_that_is_not_there_is_the_programs_fault() -> None:
    result = await BOX.run(["no-such-program"])
    assert result.status == 127
    assert "no-such-program" in result.stderr


async def test_a_cancelled_program_is_gone_too() -> None:
    mark = f"cancelled-{os.urandom(8).hex()}"
    async with listening() as (path, connected):
        code = f"{GREETED.format(path=str(path))}\nimport time; time.sleep(60)"
        work = BOX.run(["python3", "main.py", mark], script(code), sockets=[path])
        task = asyncio.ensure_future(work)
        await asyncio.wait_for(connected.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not running(mark)


@pytest.mark.parametrize("turns", range(0, 40, 4))
async def test_a_program_that_is_cancelled_while_it_starts_is_gone_too(turns: int) -> None:
    mark = f"cancelled-{os.urandom(8).hex()}"
    task = asyncio.ensure_future(BOX.run(["sleep", "60", mark]))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(mark)


KILLED = """
import asyncio, os, signal, sys, threading
from skillopt.harness.sandbox import Bubblewrap
threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGKILL)).start()
asyncio.run(Bubblewrap.create().run(["sleep", "60", sys.argv[1]]))
"""


@pytest.mark.parametrize("batch", range(4))
async def test_nothing_is_left_running_when_we_are_killed(batch: int, reachable: Path) -> None:
    env = {**os.environ, "TMPDIR": str(reachable)}
    mark = f"killed-{os.urandom(8).hex()}"
    for turn in range(5):
        command = (sys.executable, "-c", KILLED, mark, str((batch * 5 + turn) / 1000))
        process = await asyncio.create_subprocess_exec(*command, env=env)
        assert await process.wait() == -signal.SIGKILL
    for _ in range(200):  # the kernel ends them after us
        if not running(mark):
            break
        await asyncio.sleep(0.05)
    assert not running(mark)


def test_without_bubblewrap_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="bwrap and prlimit cannot be found; install bubblewrap"):
        Bubblewrap.create()


async def test_a_sandbox_that_cannot_be_made_is_no_fault_of_the_program() -> None:
    with pytest.raises(ConfigError, match=r"the sandbox cannot be made: .*no/such/socket"):
        await BOX.run(["true"], sockets=[Path("/no/such/socket")])


@dataclass(frozen=True)
class Function:
    """A task: write a Python function; tests that run in the sandbox score it."""

    sandbox: Sandbox
    brief: str
    check: str
    instructions: str = "Reply with Python code."

    async def score(self, trajectory: Trajectory) -> Score:
        program = f"{trajectory.answer}\nassert {self.check}\nprint('passed')"
        result = await self.sandbox.run(
            ["python3", "main.py"], script(program), SandboxLimits(seconds=5)
        )
        if result.ended_by:
            return Score(0, 0, f"ended by the limit on {result.ended_by}")
        passed = float(result.stdout == "passed\n")
        return Score(passed, passed, result.stderr.strip().rpartition("\n")[2])


@dataclass(frozen=True)
class Functions:
    """An environment whose scorer runs code that the model wrote."""

    sandbox: Sandbox | None = None
    name: str = "functions"
    fingerprint: str = "functions/1"

    def with_sandbox(self, sandbox: Sandbox) -> Functions:
        return Functions(sandbox)

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"{split}-{n}", data={"n": n}) for n in range(3)]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Function, None]:
        if self.sandbox is None:
            raise EnvironmentFault("no sandbox")
        number = task.data["n"]
        yield Function(
            self.sandbox, f"Write f so that f({number}) is {number}.", f"f({number}) == {number}"
        )


ANSWERS: Mapping[str, str] = {
    "f(0)": "def f(x): return x",
    "f(1)": "def f(x): return 7",
    "f(2)": "while True: pass",
}


def test_a_scorer_runs_code_that_a_model_wrote(tmp_path: Path) -> None:
    def target(prompt: str) -> str:
        return next(code for call, code in ANSWERS.items() if call in prompt)

    environment = Functions()
    assert isinstance(environment, Environment)
    assert isinstance(environment, UsesSandbox)
    result = skillopt.evaluate(
        "# Python\n",
        environment=environment,
        target=target,
        split="val",
        out=tmp_path / "out",
        progress=False,
    )
    scores = result.evaluations["val"].replicates[0]
    assert [scores[f"val-{n}"].hard for n in range(3)] == [1, 0, 0]
