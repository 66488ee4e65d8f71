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
from sleep.support_adoption import night, settings_in, stop_before_the_receipt, tree

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
    (command,) = re.findall("to adopt:\n  skillopt-sleep (.*)", waiting)
    assert run(settings, "status").stdout.count("to adopt") == 0
    elsewhere = settings.model_copy(update={"project": tmp_path})
    adopted = run(elsewhere, *shlex.split(command))
    assert adopted.returncode == 0, adopted.stderr
    assert (settings.project / "my notes.md").is_file()
    told = " ".join(adopted.stderr.split())
    (command,) = re.findall("To take it back: skillopt-sleep (.*)", told)
    assert run(elsewhere, *shlex.split(command)).returncode == 0
    assert not (settings.project / "my notes.md").exists()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes to be forked")


@needs_fork
def test_a_refused_adoption_still_tells_what_it_undid_and_where_copies_are(
    settings: Settings,
) -> None:
    memory = settings.project / "CLAUDE.md"
    memory.write_text("mine\n")
    night(settings)
    stop_before_the_receipt(settings)
    memory.write_text(f"{memory.read_text()}an edit\n")
    done = run(settings, "adopt", "--json")
    assert done.returncode == 2
    told = document(done)["message"]
    assert "stopped half-way" in told
    skill = settings.project / ".claude/skills/skillopt-sleep-learned/SKILL.md"
    assert f"restored: {skill}" in told
    assert "Nothing was changed" not in told
    (copies,) = (settings.project.parent / ".skillopt-sleep/adoptions").glob("*/*")
    assert f"{memory} was edited meanwhile and left alone, its copy is in {copies}" in told
    assert [path.read_text() for path in copies.glob("before-*")] == ["mine\n"]


@needs_fork
def test_an_adoption_tells_also_as_json_what_it_undid_first(settings: Settings) -> None:
    night(settings)
    stop_before_the_receipt(settings)
    adopted = document(run(settings, "adopt", "--json"))
    assert adopted["kind"] == "adopt"
    assert [each["kind"] for each in adopted["recovered"]] == ["adopt"]
    assert len(adopted["recovered"][0]["restored"]) == 2


@needs_fork
def test_a_rollback_after_a_killed_adoption_undoes_that_one_alone(settings: Settings) -> None:
    night(settings, "First.")
    assert run(settings, "adopt").returncode == 0
    first = tree(settings.project)
    night(settings, "Second.", minute=1)
    stop_before_the_receipt(settings)
    assert tree(settings.project) != first
    assert "adoption was stopped half-way" in run(settings, "status").stdout
    done = run(settings, "rollback")
    assert done.returncode == 0, done.stderr
    assert "no other was taken back" in done.stdout
    assert "CLAUDE.md" in done.stderr
    assert tree(settings.project) == first
    assert run(settings, "rollback").returncode == 0
    assert tree(settings.project) == {}


@needs_fork
def test_a_rollback_with_nothing_else_to_take_back_undoes_what_was_stopped(
    settings: Settings,
) -> None:
    night(settings)
    stop_before_the_receipt(settings)
    done = run(settings, "rollback", "--json")
    assert done.returncode == 0
    assert [each["kind"] for each in document(done)["recovered"]] == ["adopt"]
    assert tree(settings.project) == {}


def test_a_document_that_was_edited_does_not_keep_the_rest_of_its_night_from_adoption(
    settings: Settings,
) -> None:
    night(settings)
    (settings.project / "CLAUDE.md").write_text("newer", encoding="utf-8")
    offered = run(settings, "status").stdout
    (command,) = re.findall("to adopt:\n  skillopt-sleep (.*)", offered)
    refused = run(settings, "adopt")
    assert refused.returncode == 2
    (told,) = re.findall("skillopt-sleep (adopt .*)", refused.stderr)
    assert "--skill skill" in told
    assert run(settings, *shlex.split(command)).returncode == 0
    skill = settings.project / ".claude/skills/skillopt-sleep-learned/SKILL.md"
    assert skill.is_file()
    assert "to adopt" not in run(settings, "status").stdout
    assert "edited since" in run(settings, "status").stdout
    assert run(settings, "rollback").returncode == 0
    assert run(settings, *shlex.split(told)).returncode == 0


def test_the_managed_skill_can_be_adopted_by_its_name(settings: Settings) -> None:
    night(settings)
    done = run(settings, "adopt", "--skill", "skillopt-sleep-learned")
    assert done.returncode == 0, done.stderr
    assert not (settings.project / "CLAUDE.md").exists()


def test_a_night_whose_manifest_was_changed_is_told_beside_the_others(settings: Settings) -> None:
    changed = night(settings) / "manifest.json"
    night(settings, "Another.", minute=1)
    changed.write_bytes(changed.read_bytes() + b" ")
    done = run(settings, "status")
    assert done.returncode == 0
    assert "waiting for adoption" in done.stdout
    assert f"{changed} was changed after the night" in done.stdout
    assert "was changed" in document(run(settings, "status", "--json"))["problems"][0]


def test_status_shows_what_is_adopted_and_how_to_take_it_back(settings: Settings) -> None:
    night(settings)
    assert run(settings, "adopt").returncode == 0
    told = run(settings, "status").stdout
    (command,) = re.findall("to take it back:\n  skillopt-sleep (.*)", told)
    assert run(settings, *shlex.split(command)).returncode == 0
    assert "taken back" in run(settings, "status").stdout
