"""Nights are written where they belong, for the user alone, whatever a clone has put there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from sleep.support_adoption import night, settings_in

from skillopt.errors import StoreError
from skillopt_sleep.adoption import pending
from skillopt_sleep.cli.hook import begin_night
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.settings import Settings

OWN = ".skillopt-sleep"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.mark.parametrize("name", [OWN, f"{OWN}/staging", f"{OWN}/.gitignore"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_night_is_not_written_through_a_link_or_a_pipe_of_a_clone(
    name: str, kind: str, settings: Settings, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = settings.project / name
    place.parent.mkdir(exist_ok=True)
    if kind == "link":
        place.symlink_to(elsewhere)
    else:
        os.mkfifo(place)
    with pytest.raises(RefusedChange, match=name.rpartition("/")[2]):
        night(settings)
    assert not any(elsewhere.iterdir())


def test_the_log_of_a_hook_is_not_written_through_a_link(
    settings: Settings, tmp_path: Path
) -> None:
    (settings.project / OWN).mkdir()
    (settings.project / OWN / "schedule.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedChange, match=r"schedule\.log"):
        begin_night(settings.project)
    assert not (tmp_path / "elsewhere").exists()


def test_a_night_is_for_the_user_alone(settings: Settings) -> None:
    before = os.umask(0)
    try:
        folder = night(settings)
    finally:
        os.umask(before)
    for place in (folder, folder.parent, folder.parent.parent):
        assert place.stat().st_mode & 0o777 == 0o700
    files = list(folder.iterdir())
    assert len(files) > 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_git_does_not_see_a_night_whatever_the_clone_says(settings: Settings) -> None:
    project = settings.project
    tracked = [f"{OWN}/.gitignore", f"{OWN}/staging/.gitignore", ".gitignore"]
    for name in tracked:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("!*\n!**\n", encoding="utf-8")

    def git(*words: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", *names, *words], cwd=project, capture_output=True, text=True, check=True
        )
        return done.stdout

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    night(settings)
    git("add", "-A")
    assert git("status", "--short").split() == ["M", f"{OWN}/.gitignore"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_staging_folder_that_cannot_be_read_is_named(settings: Settings) -> None:
    folder = night(settings).parent
    folder.chmod(0)
    try:
        with pytest.raises(StoreError, match=f"{folder} cannot be read"):
            pending(settings)
    finally:
        folder.chmod(0o700)
