"""Reading a run that grows: events by position, and what the running process reports."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support_runs import Job, make_data
from support_store import story

import skillopt
from skillopt.core.events import Event, PhaseClosed, PhaseOpened, Retried, Ticked, Waiting
from skillopt.errors import LogRewritten, StoreError
from skillopt.store.events import EventFile, LogReader, read_log
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock, at_work
from skillopt.store.progress import ProgressFile, ProgressReport, read_progress
from skillopt.testing.simulator import Simulator


def a_log(path: Path, events: list[Event]) -> EventFile:
    log = EventFile(path)
    for event in events:
        log.append(event)
    return log


async def test_a_run_in_another_process_is_followed_to_its_end_and_every_event_seen_once(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    async with Simulator(seed=1) as sim:
        job = Job(url=sim.url, data=make_data(tmp_path / "data"), out=out, epochs=1)
        process = await job.apart()
        while not at_work(out) and process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with skillopt.open_run(out) as run:
            began_as = run.begun
            entries = await asyncio.to_thread(lambda: list(run.follow(pause=0.01)))
            refreshed = run.refresh()
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert not began_as
    assert tuple(entry.event for entry in entries) == read_log(out / "events.jsonl")
    assert refreshed == entries
    assert run.status == "finished"
    assert run.state == skillopt.load_run(out).state
    assert run.progress() is None
    assert not (out / "progress.json").exists()


def test_reading_goes_on_behind_any_position_and_returns_what_is_new(tmp_path: Path) -> None:
    path, events = tmp_path / "events.jsonl", story()
    log = a_log(path, events[:5])
    reader = LogReader(path)
    first = reader.read()
    assert [entry.event for entry in first] == events[:5]
    assert first[-1].position == path.stat().st_size
    assert reader.read(first[-1].position) == []
    for event in events[5:]:
        log.append(event)
    assert [entry.event for entry in reader.read(first[-1].position)] == events[5:]
    for number, entry in enumerate(first, start=1):  # as a process would that starts only now
        assert [each.event for each in LogReader(path).read(entry.position)] == events[number:]


def test_a_torn_last_line_is_left_for_later(tmp_path: Path) -> None:
    path, events = tmp_path / "events.jsonl", story()
    a_log(path, events)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    reader = LogReader(path)
    position = 0
    for cut in (last + 1, last + 30, len(whole) - 1):
        path.write_bytes(whole[:cut])
        position = max([position, *(entry.position for entry in reader.read(position))])
        assert position == last
    path.write_bytes(whole)
    assert [entry.event for entry in reader.read(position)] == events[-1:]


def test_reading_on_reads_the_line_before_and_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    path, events = tmp_path / "events.jsonl", story()
    log = a_log(path, events[:-2])
    reader = LogReader(path)
    position = reader.read()[-1].position
    log.append(events[-2])
    with path.open("r+b") as file:  # an early line is damaged; whoever reads it again notices
        file.seek(80)
        file.write(b"#")
    assert [entry.event for entry in reader.read(position)] == [events[-2]]
    with pytest.raises(StoreError, match="line 1"):
        reader.read()


@pytest.mark.parametrize("how", ["cut", "removed", "replaced", "moved"])
def test_a_log_that_was_cut_or_rewritten_is_noticed(tmp_path: Path, how: str) -> None:
    path, events = tmp_path / "events.jsonl", story()
    a_log(path, events)
    reader = LogReader(path)
    entries = reader.read()
    position = entries[-1].position
    match how:
        case "cut":
            path.write_bytes(path.read_bytes()[: entries[2].position])
        case "removed":
            path.unlink()
        case "replaced":  # with a line of the same length at the same place, and another sum
            data = path.read_bytes()
            head = data.rstrip(b"\n").rfind(b"\n") + 1
            start = data.index(b'"sum":"', head) + 7
            path.write_bytes(data[:start] + b"0" * 16 + data[start + 16 :])
        case _:
            path.write_bytes(b" " + path.read_bytes())
    with pytest.raises(LogRewritten, match="cut or rewritten"):
        reader.read(position)


def test_what_a_process_reports_can_be_read_from_another_while_it_runs(tmp_path: Path) -> None:
    def target(prompt: str) -> str:
        while not reports:
            code = (
                "import json, sys, skillopt, dataclasses\n"
                "report = skillopt.open_run(sys.argv[1]).progress()\n"
                "print(json.dumps(report and dataclasses.asdict(report)))"
            )
            done = subprocess.run(
                [sys.executable, "-c", code, str(tmp_path / "run")],
                capture_output=True,
                text=True,
                check=True,
            )
            if (report := json.loads(done.stdout)) is not None:
                reports.append(report)
        return prompt[:1]

    reports: list[dict[str, object]] = []
    rows = [{"input": f"x {n}", "answer": "y"} for n in range(12)]
    skillopt.train(
        data=rows,
        target=target,
        optimizer=lambda _: '{"edits": []}',
        skill="Answer.",
        out=tmp_path / "run",
        settings={"num_epochs": 1, "env.workers": 1},
        progress=False,
    )
    (report,) = reports
    assert report["pid"] == os.getpid()
    assert report["done"] == 0
    assert report["phases"]
    assert not (tmp_path / "run" / "progress.json").exists()


def test_a_report_counts_phases_and_names_servers_that_are_waited_for(tmp_path: Path) -> None:
    layout = Layout(tmp_path)

    def report_with(phases: int, waiting: int) -> ProgressReport:
        while True:
            report = read_progress(layout)
            if report and (len(report.phases), len(report.waiting)) == (phases, waiting):
                return report

    with RunLock(tmp_path), ProgressFile(layout.progress) as progress:
        assert read_progress(layout) is None
        progress(PhaseOpened("step_0001", "rollout", 4))
        progress(Ticked("step_0001", "rollout", "reused", 1.0))
        progress(Ticked("step_0001", "rollout", "failed"))
        progress(Ticked("step_0001", "rollout"))
        progress(Waiting("http://localhost", 3.0))
        (phase,) = (report := report_with(1, 1)).phases
        assert (phase.done, phase.total, phase.reused, phase.failed) == (3, 4, 1, 1)
        assert report.waiting == {"http://localhost": 3.0}
        progress(Retried("target", limited=True))
        progress(Retried("target"))
        progress(Retried("judge"))
        progress(Waiting("http://localhost", 9.0, over=True))
        progress(PhaseClosed("step_0001", "rollout"))
        report = report_with(0, 0)
        assert (report.retried, report.limited) == ({"target": 2, "judge": 1}, {"target": 1})
    assert not layout.progress.exists()


def test_what_a_killed_process_has_left_is_no_progress(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with RunLock(tmp_path):
        left = ProgressReport(pid=os.getpid() + 1, at="2026-01-01T00:00:00+00:00")
        layout.progress.write_text(json.dumps({"pid": left.pid, "at": left.at}), encoding="utf-8")
        assert read_progress(layout) is None  # the process at work is another one
        layout.progress.write_text(
            json.dumps({"pid": os.getpid(), "at": left.at}), encoding="utf-8"
        )
        assert read_progress(layout) is not None
    assert read_progress(layout) is None  # nobody is at work
