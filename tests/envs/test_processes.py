from __future__ import annotations

import asyncio

import pytest

from skillopt.envs.processes import found
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
