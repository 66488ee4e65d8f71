"""`run`, `dry-run`, `status` and `demo`."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import click

from skillopt.cli.arguments import Session
from skillopt.cli.render import Screen
from skillopt.cli.running import Command
from skillopt.core.wording import counted
from skillopt.errors import Pending
from skillopt.store.files import json_bytes
from skillopt.store.lock import at_work
from skillopt_sleep.cli.options import as_arguments, settings_of, with_settings
from skillopt_sleep.cli.showing import for_terminal
from skillopt_sleep.errors import NightUnderWay
from skillopt_sleep.evidence import as_json
from skillopt_sleep.night import is_due, look_async, run_night_async
from skillopt_sleep.planning import Bench
from skillopt_sleep.report import Night
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.state import NightRecord, load_state
from skillopt_sleep.status import Questions, SleepStatus, moment
from skillopt_sleep.status import status as status_of
from skillopt_sleep.transaction import Receipt, half_way

T = TypeVar("T")

_JSON = click.option("--json", "json_wanted", is_flag=True, help="Print the result as JSON.")
_PATIENCE = 4 * 3600
"""Seconds that a planned night waits for those of other projects, which are planned for the same
time and share what is remembered."""
_LOOK = 2
_RESUMABLE = "interrupted. What was found out is kept; the same command goes on with the night."


@click.command()
@click.option(
    "--if-due",
    "due",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[HH:MM]",
    help="Do nothing if a night has run since this time of day was last passed; without a time: "
    "in the last 20 hours. For schedulers.",
)
@_JSON
@with_settings
@click.pass_obj
def run(
    session: Session,
    due: str | None,
    json_wanted: bool,  # noqa: FBT001 - click calls it by name
    **given: Any,  # noqa: ANN401 - settings
) -> int:
    """Run a night: harvest, mine, practise, propose. The same command goes on with a stopped one.

    The exit code is 0 also if nothing was learnt, 1 if nothing could be measured, and 3 if your
    agent has questions to answer (--backend handoff).
    """
    settings, screen = settings_of(given), Screen()
    until = time.monotonic() + (0 if due is None else _PATIENCE)
    try:
        while True:
            # Asked again after each wait: what was waited for may have been this very night.
            if due is not None and not _due(settings, due):
                return _not_due(screen, settings, json_wanted=json_wanted)
            try:
                night = _work(session, settings, Bench())
                break
            except NightUnderWay as error:
                if time.monotonic() >= until:
                    raise
                screen.tell(f"waiting: {error}")
                _wait(settings, until)
    except Pending as pending:
        if not json_wanted:
            raise
        screen.show(_json(_pending(pending)))
        return 3
    _show(screen, night, json_wanted=json_wanted)
    return 1 if night.failed else 0


@click.command("dry-run")
@_JSON
@with_settings
@click.pass_obj
def dry_run(
    session: Session,
    json_wanted: bool,  # noqa: FBT001 - click calls it by name
    **given: Any,  # noqa: ANN401 - settings
) -> None:
    """Show what a night would use and cost. Calls no model and writes nothing.

    Tasks are mined without a model and nothing is practised: with a backend, the report says how
    many calls and tokens a night would take.
    """
    night = _waited(session, look_async(settings_of(given)))
    _show(Screen(), night, json_wanted=json_wanted)


@click.command(short_help="Show the nights of a project and what waits for adoption.")
@_JSON
@with_settings
def status(json_wanted: bool, **given: Any) -> None:  # noqa: FBT001, ANN401 - as above
    """Show the nights of a project, and what waits for adoption."""
    found, screen = status_of(settings_of(given)), Screen()
    screen.show(_json(_status(found)) if json_wanted else _told(found))


@click.command(short_help="Run a first night on sample sessions, offline.")
@click.option("--real", is_flag=True, help="Use the embedded model instead of a simulated one.")
@click.option("--model", default="", help="With --real: which one (default: the smallest).")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Keep everything in this new folder (default: a temporary one).",
)
@_JSON
@click.pass_obj
def demo(
    session: Session,
    real: bool,  # noqa: FBT001 - click calls it by name
    model: str,
    out: Path | None,
    json_wanted: bool,  # noqa: FBT001
) -> int:
    """A first night on sample sessions, offline, in a home of its own."""
    from skillopt_sleep.demo import TIME, demo_night, demo_place

    screen = Screen()
    with demo_place(out) as place:
        if not real:
            screen.tell(
                "SIMULATED model: the scores below say nothing about a real one", "bold yellow"
            )
        settings, bench = demo_night(place, real=real, model=model)
        if real:
            planned = _waited(session, look_async(settings, bench))
            screen.tell(
                f"The embedded model {settings.model} practises: {planned.estimate}. {TIME}"
            )
        night = _work(session, settings, bench)
        if out is None:  # there is nothing left to adopt
            night = replace(night, adopt_command="", staging=None)
        _show(screen, night, json_wanted=json_wanted)
        if out is None:
            screen.tell("Nothing of it is kept. To keep a night and adopt what it learns:")
            screen.tell("  skillopt-sleep demo --out first-night")
        else:
            screen.tell(f"Everything is in {out}; the report is {night.staging}/report.html")
    return 1 if night.failed else 0


def _not_due(screen: Screen, settings: Settings, *, json_wanted: bool) -> int:
    last = load_state(home_of(settings)).project(settings.project.resolve()).last_night
    told = f"no night is due: the last one was at {moment(last or 0)}"
    screen.show(_json({"ok": True, "due": False, "message": told}) if json_wanted else told)
    return 0


def _wait(settings: Settings, until: float) -> None:
    """Until no night is under way, of whichever project."""
    time.sleep(_LOOK)
    while time.monotonic() < until and at_work(home_of(settings) / "nights"):
        time.sleep(_LOOK)


def _due(settings: Settings, at: str) -> bool:
    now = datetime.now(timezone.utc)
    state = load_state(home_of(settings))
    if not at:
        last = state.project(settings.project.resolve()).last_night
        return last is None or now.timestamp() - last > 20 * 3600
    clock = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", at)
    if clock is None:
        raise click.UsageError(f"--if-due should be a time of day such as 03:17, not {at!r}")
    return is_due(state, settings.project, now, int(clock[1]), int(clock[2]))


def _work(session: Session, settings: Settings, bench: Bench) -> Night:
    command = Command(session)
    if not settings.progress:
        return command.run(run_night_async(settings, bench), lambda: _RESUMABLE)
    return command.watch(
        lambda report: run_night_async(settings, bench.watched(report)), lambda: _RESUMABLE
    )


def _waited(session: Session, work: Coroutine[object, object, T]) -> T:
    return Command(session).run(work, lambda: "interrupted")


def _show(screen: Screen, night: Night, *, json_wanted: bool) -> None:
    screen.show(*([_json(as_json(night))] if json_wanted else for_terminal(night)))


def _json(value: object) -> str:
    return json_bytes(value).decode().rstrip("\n")


def _pending(pending: Pending) -> dict[str, object]:
    return {
        "ok": False,
        "error": "Pending",
        "status": "handoff_pending",
        "message": str(pending),
        "folder": pending.folder,
        "questions": sorted(pending.questions),
    }


def _status(found: SleepStatus) -> dict[str, object]:
    return {
        "ok": True,
        "project": str(found.project),
        "home": str(found.home),
        "under_way": found.under_way,
        "nights": [record.model_dump(mode="json") for record in found.nights],
        "waiting": [
            {
                "staging": str(each.night.folder),
                "targets": [file.target for file in each.files],
                "edited": [file.target for file in each.edited],
            }
            for each in found.waiting
        ],
        "changes": [
            each.model_dump(mode="json", include={"kind", "name", "at", "night", "undoes"})
            for each in found.changes
        ],
        "half_done": [each.name for each in found.half_done],
        "scheduled": list(found.scheduled),
        "problems": list(found.problems),
        "questions": next((_asked(each) for each in found.questions), None),
        "earlier_questions": [_asked(each) for each in found.questions[1:]],
        "archived_tasks": found.archived,
        "rejected_edits": found.rejected,
    }


def _asked(asked: Questions) -> dict[str, object]:
    return {
        "night": asked.night,
        "files": [str(path) for path in asked.files],
        "command": _next(asked),
        "changed": asked.changed,
    }


def _next(asked: Questions) -> str:
    """The command that goes on with a night that waits for answers."""
    return shlex.join(["skillopt-sleep", "run", *as_arguments(asked.settings)])


def _told(found: SleepStatus) -> str:
    lines = [f"project {found.project}, home {found.home}"]
    if found.under_way is not None:
        lines.append(f"a night is under way ({found.under_way or 'just started'})")
    if not found.nights:
        lines += ["no night yet; to see what one would take:", f"  {found.look_command}"]
    lines += [_night(record) for record in found.nights[:5]]
    for asked in found.questions:
        count = len(asked.files)
        folder = asked.files[0].parents[1] if asked.files else ""
        lines += [
            f"night {asked.night} waits for answers: {counted(count, 'open question')}"
            + (f" in {folder}" if count else ""),
            f"{'when they are answered' if count else 'to go on'}:",
            f"  {_next(asked)}",
        ]
        if asked.changed:
            lines.append(f"  {asked.changed} was changed since; it goes on only with what it held")
    lines += [half_way(each) for each in found.half_done]
    for each in found.waiting:
        names = ", ".join(file.target for file in each.files)
        lines.append(f"waiting for adoption: {names} ({each.night.folder})")
        lines += [
            f"  {file.path} was edited since, so that its proposal no longer fits; the next night "
            "begins from it"
            for file in each.edited
        ]
    if found.adopt_command:
        lines += ["to adopt:", f"  {found.adopt_command}"]
    lines += [_change(each) for each in found.changes[:3]]
    if found.rollback_command:
        lines += ["to take it back:", f"  {found.rollback_command}"]
    lines += [f"not shown: {problem}" for problem in found.problems]
    lines += [f"scheduled every day by {system}" for system in found.scheduled]
    lines.append(
        f"remembered: {counted(found.archived, 'task')}, {counted(found.rejected, 'rejected edit')}"
    )
    return "\n".join(lines)


def _night(record: NightRecord) -> str:
    learnt = ", ".join(f"{name} got better" for name in record.accepted) or "nothing changed"
    outcome = f"failed ({record.failed})" if record.failed else learnt
    return (
        f"night {record.night}, {moment(record.at)}: {counted(record.tasks, 'task')}, "
        f"{counted(record.tokens, 'token')}; {outcome}"
    )


def _change(receipt: Receipt) -> str:
    names = ", ".join(file.target for file in receipt.files)
    if receipt.kind == "adopt":
        return f"adopted {moment(receipt.at.timestamp())}: {names} ({receipt.name})"
    return f"taken back {moment(receipt.at.timestamp())}: {names} ({receipt.undoes})"
