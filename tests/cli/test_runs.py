from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support_cli import Call, Trained
from support_cli import skillopt as program
from support_web import write_story

import skillopt
from skillopt.core.events import Stopped
from skillopt.errors import OldFormat
from skillopt.store.events import EventFile
from skillopt.store.lock import RunLock
from skillopt.store.reader import Status

OLD_LOG = Path(__file__).parent.parent / "store" / "golden" / "events.jsonl"


def test_runs_are_listed_with_status_benchmark_models_scores_and_cost(
    call: Call, trained: Trained
) -> None:
    done = call("runs", cwd=trained.folder)
    assert done.code == 0, done.err
    head, *rows = done.out.splitlines()
    for column in ("run", "status", "benchmark", "target", "optimizer", "before", "after", "cost"):
        assert column in head
    (row,) = rows
    for word in (
        "run", "finished", "custom", "simulated-target (simulated)",
        "simulated-optimizer (simulated)", "test",
    ):  # fmt: skip
        assert word in row
    result = skillopt.load_run(trained.folder / "run")
    for found in (result.before, result.after):
        assert f"{found.mean:.3f} [{found.low:.2f}, {found.high:.2f}]" in row


def test_a_run_takes_one_line_whatever_its_folder_is_called(call: Call, tmp_path: Path) -> None:
    for name in (b"plain", b"two\nlines\tand\x1bmore", b"not \xff utf-8"):
        write_story(tmp_path / os.fsdecode(name))
    done = call("runs", cwd=tmp_path)
    assert done.code == 0, done.err
    head, *rows = done.out.splitlines()
    assert len(rows) == 3
    assert all(row[head.index("status") :].startswith("crashed") for row in rows)
    assert rows[-1].startswith(r"two\nlines\tand\x1bmore ")


def test_programs_get_the_same_as_json(call: Call, trained: Trained) -> None:
    done = call("runs", str(trained.folder / "run"), "--json", cwd=trained.folder)
    (told,) = json.loads(done.out)["runs"]
    result = skillopt.load_run(trained.folder / "run")
    assert (told["status"], told["simulated"], told["seed"]) == ("finished", True, 42)
    assert (told["data"], told["benchmark"], told["metric"]) == ("data", "custom", "hard")
    assert told["after"]["mean"] == result.after.mean
    assert told["calls"] == result.spent.calls


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("", "crashed", ""),
        ("BudgetSpent: limits.calls is reached", "stopped by a limit", "limits.calls is reached"),
        ("CancelledError", "interrupted", "stopped on request"),
        ("Pending: 3 questions", "waiting for answers", "3 questions"),
        ("ModelError: no answer", "stopped by an error", "ModelError: no answer"),
    ],
)
def test_a_run_that_has_not_ended_says_why(
    reason: str, status: Status, why: str, call: Call, own_copy: Path
) -> None:
    events = own_copy / "run" / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"type":"stepped"' in line]
    events.write_bytes(b"".join(lines[: lines.index(kept[0]) + 1]))
    if reason:
        EventFile(events).append(Stopped(reason, "2026-01-01T00:00:00Z"))
    (run,) = skillopt.list_runs(own_copy)
    assert (run.status, run.why) == (status, why)
    done = call("show", "run", cwd=own_copy)
    assert f"{status}{f': {why}' if why else ''}; run the same train command to resume" in done.out
    with RunLock(own_copy / "run"):
        assert skillopt.describe_run(own_copy / "run").status == "running"
    assert skillopt.describe_run(own_copy / "run").status == status


@pytest.mark.parametrize("last", ["stepped", "epoch_closed"])
def test_a_run_without_a_note_of_its_end_is_crashed(last: str, own_copy: Path) -> None:
    events = own_copy / "run" / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    ends = [n for n, line in enumerate(lines) if f'"type":"{last}"'.encode() in line]
    events.write_bytes(b"".join(lines[: ends[-1] + 1]))
    (run,) = skillopt.list_runs(own_copy)
    assert (run.status, run.why) == ("crashed", "")


async def test_a_finished_run_whose_last_line_was_cut_is_finished_again(own_copy: Path) -> None:
    events = own_copy / "run" / "events.jsonl"
    os.truncate(events, events.stat().st_size - 20)
    assert skillopt.describe_run(own_copy / "run").status == "crashed"
    for _ in range(2):
        done = await program("train", "c.yaml", cwd=own_copy)
        assert done.code == 0, done
        assert skillopt.describe_run(own_copy / "run").status == "finished"
        assert events.read_bytes().count(b'"type":"finished"') == 1


def test_a_run_whose_settings_are_lost_is_listed_all_the_same(call: Call, own_copy: Path) -> None:
    (own_copy / "run" / "config.json").unlink()
    done = call("runs", cwd=own_copy)
    assert "finished" in done.out
    assert "unknown" in done.out
    assert "config.json cannot be read" in call("show", "run", cwd=own_copy).out


@pytest.mark.parametrize("size", [None, 40])
def test_runs_of_an_earlier_format_are_listed_as_such_and_refused_when_opened(
    size: int | None, call: Call, own_copy: Path
) -> None:
    old = own_copy / "old"
    old.mkdir()
    (old / "events.jsonl").write_bytes(OLD_LOG.read_bytes()[:size])
    alone = call("runs", "old", cwd=own_copy)
    assert (alone.code, alone.err) == (0, "")
    assert [row.split()[:3] for row in alone.out.splitlines()[1:]] == [["old", "old", "format"]]
    listed = skillopt.list_runs(own_copy)
    assert [(run.out.name, run.status) for run in listed] == [
        ("old", "old format"),
        ("run", "finished"),
    ]
    told, _ = json.loads(call("runs", "--json", cwd=own_copy).out)["runs"]
    assert (told["run"], told["status"]) == ("old", "old format")
    for read in (skillopt.load_run, skillopt.open_run, skillopt.describe_run):
        with pytest.raises(OldFormat, match=r"Only the version that wrote it \(0\.3\.0 or earlier"):
            read(old)
    shown = call("show", "old", cwd=own_copy)
    assert (shown.code, shown.out) == (1, "")
    assert told["why"] in shown.err.replace(str(own_copy) + "/", "")


@pytest.mark.parametrize("name", ["events.jsonl", "cache.sqlite"])
def test_a_run_with_a_damaged_file_is_listed_as_damaged(
    name: str, call: Call, own_copy: Path
) -> None:
    file = own_copy / "run" / name
    content = file.read_bytes()
    half = len(content) // 2
    damaged = content[:half] if name == "cache.sqlite" else b"{]\n" + content
    file.write_bytes(damaged)
    (run,) = skillopt.list_runs(own_copy)
    assert run.status == "damaged"
    done = call("runs", cwd=own_copy)
    assert done.code == 0
    assert done.out.splitlines()[1].split()[:2] == ["run", "damaged"]
    assert name in done.err
    (told,) = json.loads(call("runs", "--json", cwd=own_copy).out)["runs"]
    assert (told["status"], told["why"].count(name) > 0) == ("damaged", True)


def test_a_run_that_has_not_begun_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").write_bytes(b"")
    assert skillopt.list_runs(tmp_path) == []


def test_no_runs_and_no_folder_are_told_apart(call: Call, tmp_path: Path) -> None:
    empty = call("runs", cwd=tmp_path)
    assert (empty.code, empty.out) == (0, "")
    assert "no runs in ." in empty.err
    missing = call("runs", "outputs", cwd=tmp_path)
    assert missing.code == 1
    assert "outputs is not a directory" in missing.err


def test_show_names_models_seed_data_and_says_simulated(call: Call, trained: Trained) -> None:
    done = call("show", "run", cwd=trained.folder)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[1] == "finished"
    for line in (
        "target simulated-target (simulated: its scores say nothing about a real model)",
        "optimizer simulated-optimizer (simulated: its scores say nothing about a real model)",
        "data custom, data",
        "seed 42",
    ):
        assert line in lines
