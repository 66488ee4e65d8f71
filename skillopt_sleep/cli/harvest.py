"""`harvest`: what the agents' sessions have to offer, as a table and as a task file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.store.files import json_bytes
from skillopt_sleep.cli.options import settings_of, with_settings
from skillopt_sleep.harvest import Harvested, harvest_tasks
from skillopt_sleep.task_file import task_row
from skillopt_sleep.values import MinedTask

_SHOWN = 60
"""Characters of a task in the table."""


@click.command(short_help="List the tasks in the sessions of agent programs.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the tasks to this file.",
)
@click.option(
    "--force", is_flag=True, help="Replace a file that was reviewed or is no task file, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_settings
def harvest(
    output: Path | None,
    force: bool,  # noqa: FBT001 - click calls it by name
    as_json: bool,  # noqa: FBT001
    **given: Any,  # noqa: ANN401 - settings
) -> None:
    """Read the sessions of agent programs and list the tasks in them.

    No model is asked and nothing is remembered. A task file (--output) can be reviewed, edited and
    given to `run --tasks-file`.
    """
    settings = settings_of(given)
    found = harvest_tasks(settings, output, force=force)
    screen = Screen()
    if as_json:
        screen.show(json_bytes(_document(found, output)).decode().rstrip())
        return
    for notice in found.harvest.notices:
        screen.warn(notice)
    _show(screen, found)
    if output is not None:
        screen.tell(f'{output}: review it, then set "reviewed" to true in it')


def _document(found: Harvested, output: Path | None) -> dict[str, object]:
    gathered = found.harvest
    return {
        "ok": True,
        "n_sessions": len(gathered.sessions),
        "n_tasks": len(found.tasks),
        "sessions_left": gathered.left,
        "checkpoint": gathered.checkpoint.isoformat() if gathered.checkpoint else None,
        "sources": [
            {"source": each.source, "sessions": each.sessions, "skipped": dict(each.skipped)}
            for each in gathered.sources
        ],
        "skipped": gathered.skipped,
        "notices": list(gathered.notices),
        "output": str(output) if output else None,
        "tasks": [task_row(task) for task in found.tasks],
    }


def _show(screen: Screen, found: Harvested) -> None:
    gathered = found.harvest
    if not gathered.sources:
        screen.show("No sessions of any agent program were found here.")
        screen.tell("--source and the --...-home options say where to look.")
        return
    rows = (
        (each.source, str(each.sessions), _listed(dict(each.skipped))) for each in gathered.sources
    )
    screen.show(
        Table("source", "sessions", "left out", right=["sessions"], wrap=["left out"], rows=rows)
    )
    if gathered.left:
        screen.tell(f"sessions left for later nights: {gathered.left} (--max-sessions)")
    if not found.tasks:
        screen.show("", "No tasks were found in these sessions.")
        return
    screen.show("", _table(found.tasks))


def _table(tasks: tuple[MinedTask, ...]) -> Table:
    table = Table("task", "times", "pain", "check", "split", right=["times", "pain"], wrap=["task"])
    for task in tasks:
        line = " ".join(task.intent.split())
        shown = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}\u2026"
        table.add_row(
            shown, str(task.frequency), f"{task.pain:.1f}", task.reference.kind, task.split
        )
    return table


def _listed(skipped: dict[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in skipped.items())
