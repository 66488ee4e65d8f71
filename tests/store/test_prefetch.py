"""Attempts made before somebody asked for them, in the ledger."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from support_store import INITIAL, rollout

from skillopt.core.chat import Message, Reply, Usage
from skillopt.core.rollout import Failure, Rollout, Trajectory
from skillopt.store.cache import SqliteCache
from skillopt.store.ledger import PrefetchCount

PAID = Usage(1, 100, 20, 10, 0.25)


async def attempt(
    cache: SqliteCache, key: str, *, prefetch_for: str = "", fails: bool = False
) -> bool:
    """Whether the attempt counts as one that was there."""

    async def call() -> Reply:
        return Reply(text="5", usage=PAID)

    async def make() -> Rollout:
        reply = await cache.reply(f"call {key}", role="target", stage="rollout", make=call)
        told = Trajectory((Message("user", "2 + 3"),), reply.text, reply.usage)
        made = replace(rollout(key, INITIAL), trajectory=told)
        return replace(made, outcome=Failure("EnvironmentFault", "no")) if fails else made

    _, there = await cache.rollout(key, make, prefetch_for=prefetch_for)
    return there


async def test_unused_attempts_are_waste_until_somebody_asks_for_them(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    cache.enter("step_0001")
    for key in ("a", "b", "c"):
        assert not await attempt(cache, key, prefetch_for="step_0002")
    assert cache.ahead() == PrefetchCount(3, 3, Usage(3, 300, 60, 30, 0.75))
    cache.close()

    again = SqliteCache(tmp_path / "c")
    again.enter("step_0002")
    assert not await attempt(again, "a")
    assert await attempt(again, "a")
    assert again.reused.attempts == 1
    assert again.ahead() == PrefetchCount(3, 2, Usage(2, 200, 40, 20, 0.5))
    again.close()
    reader = SqliteCache(tmp_path / "c", read_only=True)
    assert reader.ahead() == PrefetchCount(3, 2, Usage(2, 200, 40, 20, 0.5))
    reader.close()


async def test_calls_ahead_are_booked_under_the_move_they_are_made_for(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    cache.enter("step_0001")
    await asyncio.gather(attempt(cache, "a", prefetch_for="step_0002"), attempt(cache, "b"))
    assert cache.spent() == {
        ("step_0001", "target", "rollout"): PAID,
        ("step_0002", "target", "rollout"): PAID,
    }
    cache.close()


async def test_who_joins_an_attempt_ahead_under_way_uses_it(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    found = await asyncio.gather(attempt(cache, "a", prefetch_for="m"), attempt(cache, "a"))
    assert found == [False, False]
    assert (cache.ahead(), cache.reused.attempts) == (PrefetchCount(1), 0)
    cache.close()


async def test_an_attempt_ahead_without_a_score_is_made_again_and_was_paid(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    await attempt(cache, "a", prefetch_for="m", fails=True)
    assert cache.ahead() == PrefetchCount(1, 1, PAID)
    assert not await attempt(cache, "a")
    assert cache.ahead() == PrefetchCount(1)
    assert await attempt(cache, "a")
    cache.close()


async def test_what_was_kept_before_is_nothing_ahead(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    await attempt(cache, "a")
    assert await attempt(cache, "a", prefetch_for="m")
    assert (cache.ahead(), cache.reused.attempts) == (PrefetchCount(), 0)
    cache.close()
