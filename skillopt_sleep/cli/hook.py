"""`hook`: what agent programs call when a session ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import click

from skillopt.core.intake import KIB
from skillopt_sleep.settings import load
from skillopt_sleep.staging import keep_out_of_git, own_path
from skillopt_sleep.starting import own_command

_MOST = 256 * KIB


@click.command(short_help="Called by the plugins when a session ends.")
@click.argument("event", type=click.Choice(["session-end"]))
def hook(event: str) -> None:
    """Called by the plugins: after a session, begin a night where `run_after_sessions` is set.

    The night runs on its own; the agent does not wait for it.
    """
    if event == "session-end" and load({}).run_after_sessions and (project := _project()):
        begin_night(project)


def begin_night(project: Path) -> None:
    """Start `run --if-due` in a project, apart from this process."""
    keep_out_of_git(project)
    command = [*own_command(), "run", "--if-due", f"--project={project}"]
    with own_path(project, "schedule.log").open("ab") as log:
        subprocess.Popen(  # noqa: S603 - ourselves
            command,
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _project() -> Path | None:
    """The folder of the session, as the program tells it on standard input, or this one."""
    told: object = None
    if not sys.stdin.isatty():
        try:
            told = json.loads(sys.stdin.read(_MOST) or "null")
        except ValueError:
            told = None
    named = cast("dict[str, object]", told).get("cwd") if isinstance(told, dict) else None
    folder = Path(named) if isinstance(named, str) and named else Path.cwd()
    return folder if folder.is_dir() and folder not in (Path.home(), Path(folder.anchor)) else None
