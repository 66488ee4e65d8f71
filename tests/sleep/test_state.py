"""What Sleep remembers: written in one go, refused when damaged, one night at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from support_sleep import mined

from skillopt.core.edits import Append
from skillopt.core.memory import MemoryEntry
from skillopt.errors import StoreError
from skillopt_sleep.settings import Settings
from skillopt_sleep.state import (
    DocumentMemory,
    NightRecord,
    ProjectState,
    State,
    load_state,
    only_night,
    save_state,
    utc,
)


def remembered(tmp_path: Path) -> State:
    entry = MemoryEntry(step=3, action="reject", rejected=(Append("- Be terse."),))
    memory = DocumentMemory(lessons="Short rules help.").with_entries([entry])
    project = ProjectState(checkpoint=1.5, last_night=2.5, documents={"/a/SKILL.md": memory})
    project = project.model_copy(update={"archive": project.with_archived([mined("a")])})
    return State().after(NightRecord(night=4, project=str(tmp_path), at=2.5), project)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    state = remembered(tmp_path)
    save_state(tmp_path, state)
    found = load_state(tmp_path)
    assert found == state
    assert found.night == 4
    assert found.project(tmp_path).archived() == [mined("a")]
    (entry,) = found.project(tmp_path).documents["/a/SKILL.md"].entries()
    assert entry.rejected == (Append("- Be terse."),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1, "night": "many"}',
        '{"version": 1, "nihgt": 1}',
        '{"version": 1, "projects": {"/a": {"archive": [{"id": 1}]}}}',
    ],
)
def test_a_damaged_state_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"state\.json is damaged .* was not changed"):
        load_state(tmp_path)
    assert path.read_text() == text


def test_a_state_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"version": 2, "dreams": []}))
    with pytest.raises(StoreError, match="later version"):
        load_state(tmp_path)


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        utc(datetime(2026, 3, 2, 9, 0))  # noqa: DTZ001


def test_a_task_that_was_held_out_stays_held_out_in_the_archive() -> None:
    project = ProjectState()
    first = project.with_archived([mined("a", split="val"), mined("b")])
    again = ProjectState(archive=first).with_archived([mined("a", split="train")])
    assert {task.id: task.split for task in ProjectState(archive=again).archived()} == {
        "b": "train",
        "a": "val",
    }


def test_the_archive_keeps_the_latest_tasks() -> None:
    tasks = [mined(str(number)) for number in range(310)]
    kept = ProjectState(archive=ProjectState().with_archived(tasks)).archived()
    assert [task.id for task in kept] == [str(number) for number in range(10, 310)]


def test_two_nights_never_run_at_once_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from skillopt_sleep.settings import Settings\n"
        "from skillopt_sleep.state import only_night\n"
        "with only_night(Settings(state_dir=Path(sys.argv[1]))):\n"
        "    print('in', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        with (
            pytest.raises(StoreError, match=rf"under way \(pid {other.pid} "),
            only_night(Settings(state_dir=tmp_path)),
        ):
            pass
        other.kill()
    with only_night(Settings(state_dir=tmp_path)) as folder:
        assert folder == tmp_path / "nights"
