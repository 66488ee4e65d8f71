from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE

import pytest

from skillopt.envs.processes import found, running
from skillopt.errors import EnvironmentFault


async def test_a_pattern_is_looked_for_anywhere_and_in_any_case_unless_case_matters():
    assert await found(r"\bpar(is|ma)\b", "It is PARIS \N{SNOWMAN}.")
    assert not await found(r"\bpar(is|ma)\b", "It is PARIS.", case_sensitive=True)
    assert not await found(r"^paris$", "It is Paris.")
    assert await found("\N{SNOWMAN}", "a \N{SNOWMAN} melts")


async def test_a_pathological_pattern_is_a_fault():
    with pytest.raises(EnvironmentFault, match=r"took over 0\.5 s"):
        await found(r"^(a+)+$", "a" * 40 + "b", seconds=0.5)


async def test_a_slow_search_holds_up_nobody_and_can_be_cancelled():
    slow = asyncio.ensure_future(found(r"^(a+)+$", "a" * 40 + "b", seconds=600))
    assert await found("quick", "a quick one")
    assert not slow.done()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_a_process_that_ends_while_it_is_killed_keeps_its_exit_code(
    caplog: pytest.LogCaptureFixture,
):
    for _ in range(20):
        starting = asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 7", stdout=PIPE)
        async with running(starting) as process:
            assert process.stdout is not None
            await process.stdout.read()
        assert process.returncode in (7, -9)
    assert not caplog.records


async def test_a_process_is_gone_also_if_it_was_still_starting(caplog: pytest.LogCaptureFixture):
    processes: list[asyncio.subprocess.Process] = []

    async def start() -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "read forever", stdin=PIPE)
        processes.append(process)
        return process

    async def work() -> None:
        async with running(start()) as process:
            await process.wait()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [process.returncode for process in processes] == [-9]
    assert not caplog.records
