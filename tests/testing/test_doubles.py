from __future__ import annotations

import asyncio

import pytest

from skillopt.core.chat import Reply, Usage
from skillopt.core.events import Started, Stopped
from skillopt.core.ports import EventLog, RolloutCache
from skillopt.core.rollout import Failure, Rollout, Score
from skillopt.core.sink import MemoryLog
from skillopt.errors import ModelError
from skillopt.testing.doubles import MemoryCache

SCORED = Rollout(task="t", skill="s", outcome=Score(1.0, 1.0))
FAILED = Rollout(task="t", skill="s", outcome=Failure("ModelError", "busy"))


def test_a_record_gives_back_what_was_appended_in_order() -> None:
    record: EventLog = MemoryLog()
    events = [Started("now", "1"), Stopped("done", "later")]
    for event in events:
        record.append(event)
    assert list(record.events()) == events


async def test_a_scored_rollout_is_made_once_and_a_failed_one_again() -> None:
    work: RolloutCache = MemoryCache()
    coming = [FAILED, SCORED]

    async def make() -> Rollout:
        await asyncio.sleep(0)
        return coming.pop(0)

    assert await work.rollout("k", make) == (FAILED, False)
    both = await asyncio.gather(work.rollout("k", make), work.rollout("k", make))
    assert both == [(SCORED, False), (SCORED, True)]


async def test_whoever_waits_for_a_maker_that_failed_makes_it_himself() -> None:
    work = MemoryCache()
    coming: list[Reply | Exception] = [ModelError("no"), Reply(text="yes", usage=Usage(1, 2, 3))]

    async def make() -> Reply:
        await asyncio.sleep(0)
        made = coming.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    work.enter("step_1")
    asked = [work.reply("k", role="target", stage="rollout", make=make) for _ in range(3)]
    first, *others = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(first, ModelError)
    assert others == [Reply(text="yes", usage=Usage(1, 2, 3))] * 2
    assert work.spent() == {("step_1", "target", "rollout"): Usage(1, 2, 3)}


async def test_a_cancelled_maker_leaves_the_key_free() -> None:
    work, started = MemoryCache(), asyncio.Event()

    async def hang() -> Reply:
        started.set()
        await asyncio.Event().wait()
        return Reply(text="")

    async def make() -> Reply:
        return Reply(text="yes")

    call = asyncio.ensure_future(work.reply("k", role="r", stage="s", make=hang))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await work.reply("k", role="r", stage="s", make=make)).text == "yes"
