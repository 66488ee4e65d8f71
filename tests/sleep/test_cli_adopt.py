"""The commands `adopt` and `rollback`: what they print, and how they end."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sleep.support_adoption import night, settings_in

from skillopt_sleep.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path, state_dir=tmp_path / ".skillopt-sleep")


def run(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skillopt_sleep", *arguments],
        cwd=settings.project,
        env={**os.environ, "HOME": str(settings.project.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return json.loads(done.stdout)


def test_a_night_is_adopted_and_taken_back_from_its_project(settings: Settings) -> None:
    night(settings)
    adopted = document(run(settings, "adopt", "--json"))
    assert adopted["ok"]
    assert [file["target"] for file in adopted["files"]] == ["skill", "memory"]
    assert (settings.project / "CLAUDE.md").is_file()
    done = run(settings, "rollback")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [f"removed {file['path']}" for file in adopted["files"]],
    )
    assert not (settings.project / "CLAUDE.md").exists()


def test_nothing_to_adopt_is_no_success(settings: Settings) -> None:
    for command in ("adopt", "rollback"):
        done = run(settings, command, "--json")
        assert done.returncode == 1
        assert document(done)["error"] == "NothingToAdopt"
        assert "Traceback" not in done.stderr


def test_a_refused_adoption_and_wrong_usage_end_with_two(settings: Settings) -> None:
    night(settings)
    (settings.project / "CLAUDE.md").write_text("newer", encoding="utf-8")
    done = run(settings, "adopt")
    assert (done.returncode, done.stdout) == (2, "")
    assert "edited since the night" in done.stderr
    assert run(settings, "adopt", "--legacy", "--all-skills").returncode == 2
    assert run(settings, "adopt", "--agnt", "x").returncode == 2
    config = settings.project.parent / ".skillopt-sleep" / "config.yaml"
    config.write_text("max_taks: 3\n", encoding="utf-8")
    done = run(settings, "adopt", "--json")
    assert done.returncode == 2
    assert "max_taks" in document(done)["message"]


def test_a_told_command_names_the_project_and_all_that_was_given(
    settings: Settings, tmp_path: Path
) -> None:
    given = ("--memory-path", "my notes.md", "--state-dir", str(tmp_path / "another"))
    named = settings.model_copy(
        update={"memory_path": Path("my notes.md"), "state_dir": tmp_path / "another"}
    )
    night(named)
    waiting = run(settings, "status", *given).stdout
    (command,) = re.findall("to adopt: skillopt-sleep (.*)", waiting)
    assert run(settings, "status").stdout.count("to adopt") == 0
    elsewhere = settings.model_copy(update={"project": tmp_path})
    adopted = run(elsewhere, *shlex.split(command))
    assert adopted.returncode == 0, adopted.stderr
    assert (settings.project / "my notes.md").is_file()
    told = " ".join(adopted.stderr.split())
    (command,) = re.findall("To take it back: skillopt-sleep (.*)", told)
    assert run(elsewhere, *shlex.split(command)).returncode == 0
    assert not (settings.project / "my notes.md").exists()
