from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from support_store import FIRST, INITIAL, keep_reply, keep_rollout, rollout

from skillopt.core.chat import Image, Message, Reply, ToolCall, Usage
from skillopt.core.rollout import Failure, Rollout, Score, Trajectory
from skillopt.errors import ModelError, StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.lock import check_folder, is_ours


async def never() -> Rollout:
    raise AssertionError("it was kept, so it must not be made")


async def test_a_rollout_is_made_once_and_found_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "run" / "cache.sqlite"
    cache = SqliteCache(path)
    value = rollout("a", INITIAL, 0.5)
    assert await keep_rollout(cache, value, "k") == (value, False)
    assert await cache.rollout("k", never) == (value, True)
    cache.close()
    again = SqliteCache(path)
    assert await again.rollout("k", never) == (value, True)
    again.close()
    assert [each.name for each in path.parent.iterdir()] == ["cache.sqlite"]


def test_nothing_is_created_before_the_first_piece_of_work(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "run" / "cache.sqlite")
    assert cache.spent() == {}
    assert cache.rollouts() == []
    cache.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_rollout_without_a_score_is_returned_and_not_kept(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    failed = Rollout(task="a", skill="s", outcome=Failure("ModelError", "down"))
    assert await keep_rollout(cache, failed, "k") == (failed, False)
    good = rollout("a", INITIAL)
    assert await keep_rollout(cache, good, "k") == (good, False)
    cache.close()


async def test_what_is_returned_is_what_a_resumed_run_would_read(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    fresh = await keep_reply(cache, "k", text="half \ud83d pair")
    assert fresh.text == "half ? pair"
    assert await keep_reply(cache, "k") == fresh
    whole = Rollout(task="a", skill="s", outcome=Score(1, 0))
    kept, _ = await keep_rollout(cache, whole, "k")
    assert isinstance(kept.outcome, Score)
    assert isinstance(kept.outcome.hard, float)
    cache.close()


async def test_a_reply_and_a_rollout_may_share_a_key(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    value = rollout("a", INITIAL)
    assert await keep_rollout(cache, value, "k") == (value, False)
    assert (await keep_reply(cache, "k")).text == "ok"
    cache.close()


async def test_the_ledger_adds_up_over_processes_by_move_role_and_stage(tmp_path: Path) -> None:
    for move, key in (("one", "a"), ("one", "b"), ("two", "c"), ("two", "a")):
        cache = SqliteCache(tmp_path / "c")
        cache.enter(move)
        await keep_reply(cache, key)
        cache.close()
    cache = SqliteCache(tmp_path / "c", read_only=True)
    assert cache.spent() == {
        ("one", "optimizer", "analyst"): Usage(2, 200, 40, 20, 0.5),
        ("two", "optimizer", "analyst"): Usage(1, 100, 20, 10, 0.25),
    }
    cache.close()


async def keep_counted(cache: SqliteCache, key: str, usage: Usage) -> Reply:
    async def make() -> Reply:
        calls = (ToolCall("1", "look", "{}"),)
        return Reply(text="", usage=usage, stop="tool", calls=calls, memo="m")

    return await cache.reply(key, role="target", stage="rollout", make=make)


async def test_estimated_calls_are_told_from_counted_ones_in_a_later_process(
    tmp_path: Path,
) -> None:
    cache = SqliteCache(tmp_path / "c")
    kept = [
        await keep_counted(cache, "a", Usage(1, 5, 2, estimated=1)),
        await keep_counted(cache, "b", Usage(1, 5, 2)),
    ]
    cache.close()
    again = SqliteCache(tmp_path / "c")
    assert again.spent() == {("", "target", "rollout"): Usage(2, 10, 4, estimated=1)}
    assert [await keep_counted(again, key, Usage()) for key in ("a", "b")] == kept
    again.close()


async def test_rollouts_are_looked_up_by_skill_and_by_task_oldest_first(tmp_path: Path) -> None:
    cache = SqliteCache(tmp_path / "c")
    values = [rollout(task, skill) for skill in (INITIAL, FIRST) for task in ("b", "a", "it's")]
    values.append(rollout("a", FIRST, replicate=1))
    for value in values:
        await keep_rollout(cache, value)
    assert cache.rollouts() == values
    assert cache.rollouts(skill=FIRST.digest) == values[3:]
    assert cache.rollouts(tasks=["it's"]) == [values[2], values[5]]
    assert cache.rollouts(skill=FIRST.digest, tasks=["a", "nope"]) == [values[4], values[6]]
    cache.close()


class Maker:
    """Counts how often it is asked; finishes when told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.started = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self) -> Reply:
        self.asked += 1
        self.started.set()
        await self.go.wait()
        return Reply(text=f"answer {self.asked}")


def ask(cache: SqliteCache, make: Maker) -> asyncio.Task[Reply]:
    return asyncio.ensure_future(cache.reply("k", role="target", stage="rollout", make=make))


async def test_asked_for_at_the_same_time_it_is_made_once(tmp_path: Path) -> None:
    cache, make = SqliteCache(tmp_path / "c"), Maker()
    tasks = [ask(cache, make) for _ in range(20)]
    await make.started.wait()
    make.go.set()
    assert {(await task).text for task in tasks} == {"answer 1"}
    assert make.asked == 1
    assert cache.spent()["", "target", "rollout"] == Usage()
    cache.close()


async def test_when_the_maker_is_cancelled_another_takes_over_once(tmp_path: Path) -> None:
    cache, make = SqliteCache(tmp_path / "c"), Maker()
    tasks = [ask(cache, make) for _ in range(4)]
    await make.started.wait()
    tasks[0].cancel()
    make.go.set()
    assert {(await task).text for task in tasks[1:]} == {"answer 2"}
    assert tasks[0].cancelled()
    assert make.asked == 2
    cache.close()


async def test_cancelling_one_who_waits_leaves_the_others_alone(tmp_path: Path) -> None:
    cache, make = SqliteCache(tmp_path / "c"), Maker()
    tasks = [ask(cache, make) for _ in range(3)]
    await make.started.wait()
    tasks[1].cancel()
    await asyncio.wait(tasks[1:2])
    make.go.set()
    assert [(await task).text for task in (tasks[0], tasks[2])] == ["answer 1", "answer 1"]
    assert tasks[1].cancelled()
    cache.close()


async def test_when_all_are_cancelled_the_next_one_starts_afresh(tmp_path: Path) -> None:
    cache, make = SqliteCache(tmp_path / "c"), Maker()
    tasks = [ask(cache, make) for _ in range(3)]
    await make.started.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    make.go.set()
    assert (await ask(cache, make)).text == "answer 2"
    cache.close()


async def test_an_error_is_everybodys_error_and_is_not_kept(tmp_path: Path) -> None:
    cache, go = SqliteCache(tmp_path / "c"), asyncio.Event()
    asked = list[int]()

    async def fail() -> Reply:
        asked.append(1)
        await go.wait()
        raise ModelError("overloaded")

    tasks = [
        asyncio.ensure_future(cache.reply("k", role="r", stage="s", make=fail)) for _ in range(3)
    ]
    asyncio.get_running_loop().call_soon(go.set)
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, ModelError)
    assert len(asked) == 1
    assert (await keep_reply(cache, "k")).text == "ok"
    cache.close()


_WRITER = """
import asyncio, sys
from pathlib import Path
from support_store import INITIAL, keep_reply, keep_rollout, rollout
from skillopt.store.cache import SqliteCache
from skillopt.store.lock import check_folder, is_ours

async def main():
    cache = SqliteCache(Path(sys.argv[1]))
    for number in range(10**9):
        await keep_reply(cache, f"r{number}", text=str(number))
        await keep_rollout(cache, rollout(f"t{number}", INITIAL), f"k{number}")
        print(number, flush=True)

asyncio.run(main())
"""


def killed_after(path: Path, stop: int) -> int:
    """Write in another process and kill it; the last number that it said was done."""
    done = -1
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            done = int(line)
            if done >= stop:
                break
        process.kill()
    return done


async def test_what_was_returned_survives_kill_9(tmp_path: Path) -> None:
    for stop in (1, 20, 150):
        path = tmp_path / str(stop)
        done = killed_after(path, stop)
        assert done >= stop
        cache = SqliteCache(path)
        for number in range(done + 1):
            assert (await keep_reply(cache, f"r{number}", text="paid twice")).text == str(number)
            assert (await cache.rollout(f"k{number}", never))[1]
        cache.close()


async def filled(path: Path, count: int = 60) -> None:
    cache = SqliteCache(path)
    for number in range(count):
        await keep_rollout(cache, rollout(f"t{number}", INITIAL))
        await keep_reply(cache, f"r{number}", text="x" * 500)
    cache.close()


async def test_damage_anywhere_in_the_file_is_called_damage_and_never_a_full_disk(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "whole"
    await filled(whole)
    data = whole.read_bytes()
    complaints: list[str] = []
    for at in range(0, len(data), 512):
        path = tmp_path / "cache.sqlite"
        path.write_bytes(data[:at] + b"\xff" * 8 + data[at + 8 :])
        complaints += complaint(path)
    assert all("damaged" in each or "newer version" in each for each in complaints)
    assert not any("disk space" in each or "with text" in each for each in complaints)
    assert len(complaints) > 50


def complaint(path: Path) -> list[str]:
    """What is said when a file is opened and read, if anything."""
    try:
        cache = SqliteCache(path)
    except StoreError as error:
        return [str(error)]
    try:
        cache.rollouts()
        cache.spent()
    except StoreError as error:
        return [str(error)]
    finally:
        cache.close()
    return []


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
async def test_a_file_cut_short_is_refused_with_the_way_out(tmp_path: Path, share: float) -> None:
    path = tmp_path / "cache.sqlite"
    await filled(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(StoreError, match=r"cache.sqlite is damaged: .*move it away .* and run"):
        SqliteCache(path)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_text("hello " * 1000, encoding="utf-8")
    with pytest.raises(StoreError, match="damaged"):
        SqliteCache(path)
    with pytest.raises(StoreError, match="damaged"):
        SqliteCache(path, read_only=True)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rollouts SET value = replace(value, 'answer', 'ANSWER')",
        "UPDATE rollouts SET skill = 'another'",
        "UPDATE rollouts SET hard = 0.5",
    ],
)
async def test_a_changed_row_is_named_and_never_used(tmp_path: Path, change: str) -> None:
    path = tmp_path / "cache.sqlite"
    await filled(path, 1)
    db = sqlite3.connect(path)
    db.execute(change)
    db.commit()
    db.close()
    cache = SqliteCache(path)
    key = f"t0/{INITIAL.digest}/0"
    with pytest.raises(StoreError, match=f"the row {key} was changed"):
        await cache.rollout(key, never)
    with pytest.raises(StoreError, match="was changed"):
        cache.rollouts(tasks=["t0"])
    cache.close()


async def test_a_changed_reply_is_named_and_never_used(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    await filled(path, 1)
    db = sqlite3.connect(path)
    db.execute("UPDATE calls SET dollars = 9")
    db.commit()
    db.close()
    cache = SqliteCache(path)
    with pytest.raises(StoreError, match="the row r0 was changed"):
        await keep_reply(cache, "r0")
    cache.close()


@pytest.mark.parametrize(("version", "way_out"), [(99, "Upgrade skillopt"), (1, "env.out_root")])
async def test_a_file_of_another_version_is_refused(
    tmp_path: Path, version: int, way_out: str
) -> None:
    path = tmp_path / "cache.sqlite"
    await filled(path, 1)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    for read_only in (True, False):
        with pytest.raises(StoreError, match=way_out):
            SqliteCache(path, read_only=read_only)


async def test_an_empty_file_left_by_a_crash_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.touch()
    assert SqliteCache(path, read_only=True).rollouts() == []
    cache = SqliteCache(path)
    assert (await keep_reply(cache, "k")).text == "ok"
    cache.close()


async def test_a_reader_sees_the_work_of_a_run_under_way_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    writer = SqliteCache(path)
    await keep_rollout(writer, rollout("a", INITIAL))
    reader = SqliteCache(path, read_only=True)
    await keep_rollout(writer, rollout("b", INITIAL))
    assert [each.task for each in reader.rollouts()] == ["a", "b"]
    with pytest.raises(StoreError, match=r"cannot use .*readonly"):
        await keep_reply(reader, "k")
    reader.close()
    writer.close()


async def test_a_cache_in_a_place_that_cannot_hold_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = SqliteCache(tmp_path / "file" / "cache.sqlite")
    with pytest.raises(StoreError, match="cannot write"):
        await keep_reply(cache, "k")


async def test_costs_are_counted_on_and_are_those_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    cache = SqliteCache(path)
    assert cache.spent() == {}
    for number in range(1, 7):
        cache.enter(f"step_{number // 3}")
        await keep_reply(cache, f"call {number}", stage="analyst" if number % 2 else "merge")
        anew = SqliteCache(path, read_only=True)
        assert cache.spent() == cache.spent() == anew.spent()
        assert sum(usage.calls for usage in cache.spent().values()) == number
        anew.close()
    cache.close()


def showing(number: int, content: str) -> Rollout:
    """An attempt that was shown two images, one of which all others were shown, too."""
    images = (Image("image/png", content), Image("image/png", f"{number}" * 50, "high"))
    said = (Message("user", "Look.", images), Message("assistant", "Seen."))
    return Rollout(
        task=f"t{number}",
        skill="s",
        outcome=Score(1, 1, "ok"),
        trajectory=Trajectory(said, "Seen."),
    )


async def test_an_image_that_many_attempts_show_is_kept_once(tmp_path: Path) -> None:
    path, page = tmp_path / "cache.sqlite", "QUJD" * 50_000
    made = [showing(number, page) for number in range(8)]

    async def make(rollout: Rollout) -> Rollout:
        return rollout

    cache = SqliteCache(path)
    for each in made:
        assert await cache.rollout(each.task, partial(make, each)) == (each, False)
    cache.close()
    assert path.stat().st_size < 2 * len(page)
    cache = SqliteCache(path)
    assert [(await cache.rollout(each.task, never))[0] for each in made] == made
    assert cache.rollouts(skill="s") == made
    cache.close()


async def test_an_image_that_was_changed_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"

    async def make() -> Rollout:
        return showing(1, "QUJD")

    cache = SqliteCache(path)
    await cache.rollout("k", make)
    cache.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE images SET content = 'other'")
    cache = SqliteCache(path)
    with pytest.raises(StoreError, match=r"image .* is not as it was written"):
        await cache.rollout("k", never)
    cache.close()


async def test_a_file_without_a_table_of_images_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"

    async def make(number: int) -> Rollout:
        return showing(number, "QUJD")

    cache = SqliteCache(path)
    await cache.rollout("k", partial(make, 1))
    cache.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE images")
        db.execute("DELETE FROM rollouts")
    cache = SqliteCache(path)
    assert (await cache.rollout("l", partial(make, 2)))[0] == showing(2, "QUJD")
    cache.close()


_THREE_CALLS = """
import asyncio, sys
from pathlib import Path
from support_store import keep_reply
from skillopt.store.cache import SqliteCache
from skillopt.store.lock import check_folder, is_ours
cache = SqliteCache(Path(sys.argv[1]))
for number in range(3):
    asyncio.run(keep_reply(cache, f"{sys.argv[2]}-{number}"))
cache.close()
"""


def test_readers_that_come_and_go_take_no_lock_away_from_one_that_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"

    def write(name: str) -> None:
        argv = [sys.executable, "-c", _THREE_CALLS, str(path), name]
        subprocess.run(argv, check=True, cwd=Path(__file__).parents[1])

    def calls(cache: SqliteCache) -> int:
        return sum(usage.calls for usage in cache.spent().values())

    write("first")
    with closing(SqliteCache(path, read_only=True)) as staying:
        assert calls(staying) == 3
        for number in range(3):
            with closing(SqliteCache(path, read_only=True)) as passing:
                assert calls(passing) == 3 * (number + 1)
            check_folder(tmp_path)
            assert is_ours(tmp_path)
            write(f"later-{number}")
            # The log of a file that is being read stays; a new one would be another file.
            assert path.with_name("cache.sqlite-wal").exists()
            assert calls(staying) == 3 * (number + 2)
