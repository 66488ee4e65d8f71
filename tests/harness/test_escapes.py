"""Programs that try to get out of the sandbox, to use it up, or to fool whoever reads its files."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillopt.core.episode import Workspace
from skillopt.core.ports import KeepsFolder, Sandbox
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.errors import ConfigError
from skillopt.harness.escapes import try_escapes
from skillopt.harness.running import resident_bytes
from skillopt.harness.sandbox import Bubblewrap
from skillopt.harness.seccomp import filter_program
from skillopt.harness.unsafe import Unconfined
from skillopt.harness.workspace import temporary_folder, used_disk

try:
    BOX = Bubblewrap.create()
except ConfigError as reason:
    pytest.skip(str(reason), allow_module_level=True)
EVERYTHING = Workspace(collect=("*",))


def running(mark: str) -> bool:
    """Whether a process has this in its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if mark.encode() in entry.read_bytes():
                return True
    return False


def script(code: str) -> Workspace:
    return Workspace(files={"main.py": code.encode()}, collect=("*",))


@dataclass(frozen=True)
class Leaky:
    """A sandbox with a network."""

    user: int | None = BOX.user

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
        del network
        return await BOX.run(
            command, files, limits, network=True, sockets=sockets, programs=programs
        )


async def test_every_way_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("secret")
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    attempts = await try_escapes(BOX, tmp_path)
    assert [attempt for attempt in attempts if not attempt.refused] == []
    tried = {attempt.what for attempt in attempts}
    assert {
        "read the run directory",
        "read the home",
        "read another workspace",
        "read the right answers",
        "open a TCP connection to this machine",
        "send a UDP packet",
        "connect to an abstract unix socket",
        "connect to a unix socket that is not the door",
        "start processes without end",
        "write a file of 10 GB",
        "link a file of others into the workspace",
        "have links followed when files are read out",
        "see processes of this machine in /proc",
        "kill the parent",
        "leave a process behind",
    } <= tried


async def test_an_open_way_is_told(tmp_path: Path) -> None:
    open_ways = [each.what for each in await try_escapes(Leaky(), tmp_path) if not each.refused]
    assert "open a TCP connection to this machine" in open_ways
    assert "send a UDP packet" in open_ways
    assert "connect to an abstract unix socket" in open_ways
    assert "read the home" not in open_ways


async def test_all_files_together_are_limited() -> None:
    code = """
import os
for number in range(10**6):
    os.makedirs(f"d{number % 50}", exist_ok=True)
    open(f"d{number % 50}/{number}", "wb").write(b"x" * 10**6)
"""
    limits = SandboxLimits(disk_bytes=3 * 10**7, seconds=60)
    result = await BOX.run(["python3", "main.py"], script(code), limits)
    assert result.ended_by == "disk"


async def test_empty_files_are_limited_too() -> None:
    code = """
import os
for number in range(10**7):
    open(f"{number}", "w").close()
"""
    result = await BOX.run(["python3", "main.py"], script(code), SandboxLimits(files=2000))
    assert result.ended_by == "disk"


async def test_all_processes_together_may_hold_only_so_much_memory() -> None:
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = b"x" * 10**8
        time.sleep(60)
time.sleep(60)
"""
    limits = SandboxLimits(total_memory=3 * 10**8, seconds=60)
    result = await BOX.run(["python3", "main.py"], script(code), limits)
    assert result.ended_by == "memory"


async def test_cpu_time_and_open_files_are_limited() -> None:
    loop = await BOX.run(
        ["python3", "-c", "while True: pass"], limits=SandboxLimits(cpu_seconds=1, seconds=60)
    )
    assert (loop.status, loop.ended_by) == (128 + signal.SIGKILL, "")
    code = "files = [open('/dev/null') for _ in range(100)]"
    many = await BOX.run(["python3", "-c", code], limits=SandboxLimits(open_files=50))
    assert "Too many open files" in many.stderr


async def test_names_that_are_no_text_and_too_many_files_are_left_out() -> None:
    code = """
import os
open(b"bad-\\xff", "w").write("x")
os.mkdir("z")
for number in range(10_050):
    open(f"z/{number:05}", "w")
"""
    result = await BOX.run(["python3", "main.py"], script(code))
    assert result.left_out["bad-\\udcff"] == "its name is not UTF-8"
    assert len(result.files) + len(result.left_out) == 10_001
    ("".join(result.files) + "".join(result.left_out)).encode("utf-8")


async def test_a_folder_is_kept_between_two_programs_and_no_process_is() -> None:
    assert isinstance(BOX, KeepsFolder)
    async with BOX.open(Workspace(files={"a": b"1"}, collect=("*",))) as folder:
        first = await folder.run(["sh", "-c", "echo 2 >> a; echo t > /tmp/t; sleep 60 & echo $!"])
        second = await folder.run(["sh", "-c", "cat a /tmp/t; ls /proc | grep -c '^[0-9]'"])
        folder.write("sub/b", b"3")
        path = folder.lend("helper", b"echo helped")
        third = await folder.run(["sh", path])
        left = folder.collect()
    assert first.status == 0
    assert second.stdout.split() == ["12", "t", second.stdout.split()[-1]]
    assert int(second.stdout.split()[-1]) < 8
    assert third.stdout == "helped\n"
    assert left.files == {"a": b"12\n", "sub/b": b"3"}


async def test_a_file_that_a_program_made_a_link_is_not_written_through() -> None:
    async with BOX.open(EVERYTHING) as folder:
        await folder.run(["sh", "-c", "ln -s /etc/passwd x; mkfifo p; mkdir d; ln -s / e"])
        for path in ("x", "p", "d", "e/etc/passwd"):
            with pytest.raises(OSError, match=r".+"):
                folder.write(path, b"x")
            with pytest.raises(OSError, match=r".+"):
                folder.read(path, 10)
        with pytest.raises(ValueError, match="inside of the workspace"):
            folder.write("../x", b"x")
        folder.write("long", b"12345")
        with pytest.raises(ValueError, match="at most 3"):
            folder.read("long", 3)


def test_there_is_a_filter_for_the_usual_machines_and_none_for_others() -> None:
    for machine in ("x86_64", "aarch64"):
        program = filter_program(machine)
        assert program is not None
        assert len(program) % 8 == 0
    assert filter_program("vax") is None


def test_the_memory_of_a_process_that_is_gone_is_nothing() -> None:
    assert resident_bytes(None) == 0
    assert resident_bytes(2**22) == 0
    assert resident_bytes(os.getpid()) > 10**6


def test_what_files_take_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"x" * 10**6)
    (tmp_path / "link").symlink_to("/")
    assert 10**6 <= used_disk(tmp_path)[1] < 2 * 10**6
    with temporary_folder() as folder:
        assert used_disk(folder) == (0, 0)


@pytest.mark.parametrize(
    ("platform", "told"), [("darwin", "Linux container"), ("win32", "run skillopt in WSL")]
)
def test_other_systems_get_a_clear_answer(
    monkeypatch: pytest.MonkeyPatch, platform: str, told: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(ConfigError, match=rf"{told}.*--unsafe-no-sandbox"):
        Bubblewrap.create()


async def test_without_a_sandbox_programs_run_as_we_do_under_limits() -> None:
    box = Unconfined.create()
    assert isinstance(box, KeepsFolder)
    plain: Sandbox = box
    result = await plain.run(
        ["sh", "-c", "pwd > /dev/null; echo $HOME; echo x > out; echo $SECRET >&2"], EVERYTHING
    )
    assert result.files == {"out": b"x\n"}
    assert result.stderr == "\n"
    slow = await plain.run(["sleep", "60"], limits=SandboxLimits(seconds=0.3))
    assert slow.ended_by == "seconds"
    killed = await plain.run(["sh", "-c", "kill -9 $$"])
    assert killed.status == 128 + signal.SIGKILL


async def test_without_a_sandbox_what_is_left_running_is_ended_too() -> None:
    mark = f"left-{os.urandom(8).hex()}"
    start = time.monotonic()
    code = f"setsid sh -c 'sleep 61; : {mark}' & echo $!"
    result = await Unconfined.create().run(["sh", "-c", code])
    assert result.status == 0
    assert time.monotonic() - start < 30
    assert not running(mark)


async def test_a_cancelled_program_without_a_sandbox_is_gone_too() -> None:
    mark = f"gone-{os.urandom(8).hex()}"
    task = asyncio.ensure_future(Unconfined.create().run(["sh", "-c", f"sleep 62; : {mark}"]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(mark)
