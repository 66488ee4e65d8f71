"""Calls under way are known to later processes, however this one ends."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillopt.core.chat import Message, Model, Reply, Request, Usage
from skillopt.errors import ModelError, Unusable
from skillopt.model.budget import Budget, Limits, Meter, worst_case
from skillopt.model.scripted import Scripted
from skillopt.model.wrappers import Metered, NonEmpty, Recorded, Retrying, RetryPolicy
from skillopt.store.cache import SqliteCache

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))
ANSWER = Reply(text="So.", usage=Usage(1, 10, 2))
EMPTY = Reply(text="", usage=Usage(1, 10, 5))
LIMITED = Limits(calls=100, tokens=100_000)
WORST = worst_case(ASK, 100)


async def at_once(_: float) -> None:
    """No time passes."""


def whole(model: Model, cache: SqliteCache, caps: Limits = LIMITED) -> Model:
    """What a run puts around a model, without its waits."""
    budget = Budget(Meter.after(cache.spent()), caps, cache)
    metered = Metered(model, "target", budget, None, 100)
    policy = RetryPolicy(tries=2, sleep=at_once)
    return Recorded(Retrying(NonEmpty(metered, "target"), policy), "target", cache)


def rows(path: Path) -> list[str]:
    """The states of what is written down, as another process sees it."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = [str(state) for (state,) in db.execute("SELECT state FROM reservations")]
    db.close()
    return found


async def test_a_call_is_on_disk_before_it_is_sent_and_gone_once_its_reply_is_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c"
    cache, sent = SqliteCache(path), list[list[str]]()

    def look(_: Request) -> Reply:
        sent.append(rows(path))
        return ANSWER

    await whole(Scripted(look), cache).complete(ASK)
    assert (sent, rows(path)) == ([["open"]], [])
    assert cache.spent() == {("", "target", "rollout"): Usage(1, 10, 2)}
    assert cache.interrupted() == Usage()
    cache.close()


async def test_without_a_limit_nothing_is_written_before_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache, there = SqliteCache(path), list[bool]()

    def look(_: Request) -> Reply:
        there.append(path.exists())
        return ANSWER

    await whole(Scripted(look), cache, Limits(minutes=9)).complete(ASK)
    assert (there, rows(path)) == ([False], [])
    cache.close()


_CALLER = """
import asyncio, sys
from pathlib import Path
from skillopt.core.chat import Message, Request
from skillopt.model.budget import Meter
from skillopt.model.budget import Limits, Budget
from skillopt.model.scripted import Scripted
from skillopt.model.wrappers import Metered, Recorded
from skillopt.store.cache import SqliteCache

async def call(request):
    print("sent", flush=True)
    await asyncio.Event().wait()

async def main():
    cache = SqliteCache(Path(sys.argv[1]))
    purse = Budget(Meter(), Limits(calls=100), cache)
    model = Recorded(Metered(Scripted(call), "target", purse, None, 100), "target", cache)
    asks = [Request(stage="rollout", messages=(Message("user", "Why?"),), replicate=n)
            for n in range(3)]
    await asyncio.gather(*map(model.complete, asks))

asyncio.run(main())
"""


def test_calls_under_way_at_a_kill_count_at_their_worst_case_in_every_later_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c"
    for kills in (1, 2):
        with subprocess.Popen(
            [sys.executable, "-c", _CALLER, str(path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for _ in range(3):
                assert process.stdout.readline() == b"sent\n"
            reader = SqliteCache(path, read_only=True)
            assert reader.interrupted().calls == 3 * (kills - 1), "those of a live process are open"
            reader.close()
            process.kill()
        cache = SqliteCache(path)
        lost = cache.interrupted()
        assert lost == Usage(3 * kills, 3 * kills * WORST.input, 3 * kills * WORST.output)
        assert Budget(Meter(), LIMITED, cache).interrupted == lost
        assert cache.spent() == {}
        cache.close()


async def test_a_call_that_is_cancelled_counts_and_one_that_fails_does_not(tmp_path: Path) -> None:
    cache, sent = SqliteCache(tmp_path / "c"), asyncio.Event()

    async def hang(_: Request) -> str:
        sent.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(whole(Scripted(hang), cache).complete(ASK))
    await sent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cache.interrupted() == WORST

    def fail(_: Request) -> str:
        raise ModelError("down")

    with pytest.raises(ModelError):
        await whole(Scripted(fail), cache).complete(ASK)
    assert cache.interrupted() == WORST
    cache.close()


@pytest.mark.parametrize("caps", [LIMITED, Limits()])
async def test_replies_that_were_paid_and_are_of_no_use_are_paid_in_later_processes_too(
    caps: Limits, tmp_path: Path
) -> None:
    cache = SqliteCache(tmp_path / "c")
    cache.enter("step_0001")
    script: Iterator[Reply] = iter([EMPTY, ANSWER, EMPTY, EMPTY])
    model = whole(Scripted(lambda _: next(script)), cache, caps)
    assert (await model.complete(ASK)).text == "So."
    place = ("step_0001", "target", "rollout")
    assert cache.spent() == {place: Usage(2, 20, 7)}
    with pytest.raises(Unusable):
        await model.complete(Request(stage="rollout", messages=()))
    cache.close()
    again = SqliteCache(tmp_path / "c")
    assert again.spent() == {place: Usage(4, 40, 17)}
    assert again.interrupted() == Usage()
    again.close()


async def test_a_start_whose_first_call_fails_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache, there = SqliteCache(path), list[bool]()

    def fail(_: Request) -> str:
        there.append(path.exists())
        raise ModelError("wrong key")

    with pytest.raises(ModelError):
        await whole(Scripted(fail), cache).complete(ASK)
    cache.close()
    assert there == [True]
    assert not path.exists()
