from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from support_cli import make_project, skillopt
from support_runs import Job, make_data
from support_store import keep_reply

from skillopt.core.chat import Reply
from skillopt.datasets.manifests import write_manifest
from skillopt.datasets.rows import read_rows
from skillopt.datasets.splits import by_ratio
from skillopt.errors import DataError, OldFormat, StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.layout import run_folders
from skillopt.store.lock import RunLock
from skillopt.testing.simulator import Simulator

THEIRS = ("config.json", "best_skill.md", "skills/notes.md", ".draft.md.tmp", ".lock")


def put(folder: Path, names: tuple[str, ...] = THEIRS) -> dict[Path, bytes]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"mine")
    return content(folder)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", THEIRS)
def test_a_folder_with_any_file_of_somebody_else_is_refused_and_not_touched(
    tmp_path: Path, name: str
) -> None:
    before = put(tmp_path, (name,))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"did not make.*env\.out_root"), RunLock(tmp_path):
            pass
    assert content(tmp_path) == before


@pytest.mark.parametrize("inside", ["", "run"])
def test_a_file_in_place_of_a_folder_is_called_one_and_not_touched(
    tmp_path: Path, inside: str
) -> None:
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    told = r"mine is a file\. Nothing was changed\. Choose .* folder \(env\.out_root\)\."
    with pytest.raises(StoreError, match=told), RunLock(tmp_path / "mine" / inside):
        pass
    assert content(tmp_path) == {tmp_path / "mine": b"mine"}


@pytest.mark.parametrize("inside", ["", "run"])
def test_a_link_to_nothing_in_place_of_a_folder_is_called_one(tmp_path: Path, inside: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    told = r"link is a symbolic link to .*gone, where nothing is\. Nothing was changed\."
    with pytest.raises(StoreError, match=told), RunLock(tmp_path / "link" / inside):
        pass
    assert not (tmp_path / "gone").exists()


async def test_a_name_that_no_folder_can_have_is_told_with_the_reason(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        long = f"env.out_root={'x' * 300}"
        for command in (("train",), ("eval", "--skill", "skill.md"), ("calibrate",)):
            done = await skillopt(*command[:1], "c.yaml", *command[1:], long, cwd=tmp_path)
            assert done.code == 1, done
            assert "xxx cannot be a folder: File name too long" in done.err, done
            assert "bug" not in done.err
        done = await skillopt("doctor", "c.yaml", "--offline", long, cwd=tmp_path)
        assert "xxx cannot be a folder: File name too long" in done.out, done


@pytest.mark.parametrize(
    "log", [b'{"v":1,"seq":1,"sum":"fd6', b'{"v":1', b'{"v":1,"seq":1,"sum":"fd6\n', b"", None]
)
async def test_a_refused_start_in_a_run_of_an_earlier_version_changes_nothing(
    tmp_path: Path, log: bytes | None
) -> None:
    run = tmp_path / "run"
    cache = SqliteCache(run / "cache.sqlite")
    await keep_reply(cache, "k")
    cache.close()
    database = sqlite3.connect(run / "cache.sqlite")
    database.execute("PRAGMA user_version = 1")
    database.close()
    database = sqlite3.connect(run / "cache.sqlite", isolation_level=None)
    database.execute("DELETE FROM calls")  # stands in the -wal
    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    database.close()
    assert (killed / "cache.sqlite-wal").stat().st_size
    (killed / ".lock").write_text("pid 1 on host since long ago\n", encoding="utf-8")
    if log is not None:
        (killed / "events.jsonl").write_bytes(log)
    before = content(killed)
    async with Simulator() as simulator:
        data = make_data(tmp_path / "data", (8, 6, 4))
        with pytest.raises(OldFormat, match=r"0\.3\.0 or earlier"):
            await Job(url=simulator.url, data=data, out=killed).here()
    assert content(killed) == before


async def test_no_command_that_writes_overwrites_a_folder_of_the_user(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        make_project(tmp_path, simulator.url)
        before = put(tmp_path / "run")
        for command in (("train",), ("eval", "--skill", "skill.md"), ("calibrate",)):
            done = await skillopt(*command[:1], "c.yaml", *command[1:], cwd=tmp_path)
            assert done.code == 1, done
            assert "did not make" in done.err, done
            assert content(tmp_path / "run") == before
        assert not simulator.stats().replies


async def test_a_run_directory_without_the_mark_is_continued_if_its_record_is_ours(
    tmp_path: Path,
) -> None:
    async with Simulator(seed=1) as simulator:
        data = make_data(tmp_path / "data", sizes=(8, 8, 8))
        job = Job(url=simulator.url, data=data, out=tmp_path / "run", epochs=1, batch=8)
        await job.here()
        spent = simulator.stats().replies.total()
        for missing in ((".skillopt",), (".skillopt", "cache.sqlite"), (".skillopt",)):
            for name in missing:
                (job.out / name).unlink()
            await job.here()
        assert simulator.stats().replies.total() == spent
        mine = job.out / "steps" / ".mine.1.tmp"
        mine.write_bytes(b"mine")
        await job.here()
        assert mine.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["skills", "steps/step_0001", ".lock"])
async def test_a_run_directory_with_a_link_that_leads_out_of_it_is_refused_before_writing(
    tmp_path: Path, name: str
) -> None:
    async with Simulator(seed=1) as simulator:
        make_project(tmp_path, simulator.url)
        done = await skillopt("train", "c.yaml", cwd=tmp_path)
        assert done.code == 0, done
        theirs, link = tmp_path / "mine", tmp_path / "run" / name
        put(theirs, ("best_skill.md", "skill_v0001.md", "step_record.json"))
        if link.is_dir():
            shutil.rmtree(link)
            link.symlink_to(theirs)
        else:
            link.symlink_to(theirs / "best_skill.md")
        before = content(tmp_path)
        for command in (("train", "c.yaml"), ("show", "run", "--rebuild")):
            done = await skillopt(*command, cwd=tmp_path)
            assert done.code == 1, done
            assert f"{name} is a symbolic link to {theirs.resolve()}" in done.err, done
            assert "Nothing was changed" in done.err
            assert content(tmp_path) == before


def test_links_within_a_run_directory_and_to_it_are_followed(tmp_path: Path) -> None:
    with RunLock(tmp_path / "disk"):
        (tmp_path / "disk" / "big").mkdir()
        (tmp_path / "disk" / "skills").symlink_to(tmp_path / "disk" / "big")
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with RunLock(tmp_path / "run"):
        assert (tmp_path / "disk" / ".lock").exists()


async def test_a_folder_with_finished_work_and_no_record_yet_is_ours(tmp_path: Path) -> None:
    async def answer() -> Reply:
        return Reply(text="yes")

    cache = SqliteCache(tmp_path / "cache.sqlite")
    await cache.reply("key", role="target", stage="rollout", make=answer)
    cache.close()
    with RunLock(tmp_path):
        pass


def test_a_start_that_failed_leaves_nothing_and_what_a_desktop_leaves_does_not_matter(
    tmp_path: Path,
) -> None:
    (tmp_path / ".DS_Store").touch()
    for _ in range(2):
        with RunLock(tmp_path):
            assert (tmp_path / ".skillopt").exists()
    (tmp_path / ".lock").write_text("pid 1 on host since then\n", encoding="utf-8")
    with RunLock(tmp_path):
        pass


def test_a_cut_never_replaces_items_that_we_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "".join(f'{{"input": "q{n}", "answer": "a"}}\n' for n in range(10)), encoding="utf-8"
    )
    cut = by_ratio(read_rows(tmp_path / "rows.jsonl"))
    out = tmp_path / "cut"
    before = put(out, ("val/items.json",))
    with pytest.raises(DataError, match=r"val/items\.json.*split_output_dir"):
        write_manifest(out, cut, source="x", ratio="2:1:7", seed=1)
    assert content(out) == before
    (out / "val" / "items.json").unlink()
    write_manifest(out, cut, source="x", ratio="2:1:7", seed=1)
    (out / "split_manifest.json").unlink()  # as after a kill before the last file
    write_manifest(out, cut, source="x", ratio="2:1:7", seed=1)


async def test_a_quickstart_beside_other_files_replaces_none_of_them(tmp_path: Path) -> None:
    before = put(tmp_path / "mine", ("skill.md", "notes.txt"))
    for how in (("--sim",), ("--spend",)):
        done = await skillopt(
            "quickstart", *how, "--out", "mine", "--yes", cwd=tmp_path, OPENAI_API_KEY="k" * 12
        )
        assert done.code == 1, done
        assert "skill.md is there already" in done.err, done
        assert content(tmp_path / "mine") == before


def test_a_run_is_listed_once_and_a_pipe_is_not_taken_for_a_record(tmp_path: Path) -> None:
    (tmp_path / "group" / "run").mkdir(parents=True)
    (tmp_path / "group" / "run" / "events.jsonl").touch()
    (tmp_path / "again").symlink_to(tmp_path / "group" / "run")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "events.jsonl")
    assert run_folders(tmp_path) == [tmp_path / "again"]
