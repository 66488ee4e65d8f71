"""`schedule` and `unschedule`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from skillopt.cli.render import Screen
from skillopt.config.redaction import redact, redact_personal
from skillopt.errors import ConfigError
from skillopt.store.files import json_bytes
from skillopt_sleep import schedule as scheduling
from skillopt_sleep.cli.options import as_arguments, settings_of, with_settings
from skillopt_sleep.models import doubts
from skillopt_sleep.settings import from_variables, home_of, told_command
from skillopt_sleep.sources.fields import FURTHER_VARIABLES, VARIABLES, home_folder, variable_of

_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.command(short_help="Run a night every day with the given options.")
@click.option("--hour", type=click.IntRange(0, 23), default=3, show_default=True)
@click.option("--minute", type=click.IntRange(0, 59), default=17, show_default=True)
@click.option(
    "--scheduler",
    type=click.Choice(["auto", "cron", "systemd", "launchd", "windows"]),
    default="auto",
    show_default=True,
    help="The scheduler of the system; auto: the first that can be used.",
)
@click.option("--show", is_flag=True, help="Only print what would be written.")
@_JSON
@with_settings
def schedule(
    hour: int,
    minute: int,
    scheduler: str,
    show: bool,  # noqa: FBT001 - click calls it by name
    as_json: bool,  # noqa: FBT001
    **given: Any,  # noqa: ANN401 - settings
) -> None:
    """Run a night every day, with all options that are given here."""
    settings = settings_of(given)
    kept = {key: value for key, value in given.items() if value not in (None, ())}
    kept.pop("project", None)  # a job has one anyway
    for key in ("target_skill_path", "memory_path"):  # these are below the project
        if key in kept:
            kept[key] = settings.project.resolve() / kept[key].expanduser()
    # A scheduler does not know the variables of a shell.
    for key in from_variables(settings.backend):
        kept.setdefault(key, getattr(settings, key))
    for key, variable in VARIABLES.items():
        said = home_folder(None, variable)
        if said != Path.home() and getattr(settings, key) is None:
            kept[key] = said
    _check_public(kept, home_of(settings) / "config.yaml")
    made = scheduling.schedule(
        settings,
        arguments=as_arguments(kept),
        variables={name: said for name in FURTHER_VARIABLES if (said := variable_of(name))},
        hour=hour,
        minute=minute,
        system=scheduler,
        write=not show,
    )
    texts = {name: _text(data) for name, data in made.files.items()}
    screen, job = Screen(), made.job
    if as_json:
        document = {
            "ok": True,
            "scheduler": made.system,
            "written": not show,
            "project": str(job.project),
            "at": job.at,
            "command": job.command,
            "log": str(job.log),
            "files": texts,
            "warnings": doubts(settings),
        }
        screen.show(json_bytes(document).decode().rstrip())
    elif show:
        for name, text in texts.items():
            screen.show(f"# {name}\n{text.rstrip()}")
    else:
        adopts = "is adopted at once" if settings.auto_adopt else "waits for your adoption"
        screen.show(
            f"every day at {job.at} by {made.system}; what a night accepts {adopts}\n"
            f"  {shlex.join(job.command)}"
        )
        screen.tell(f"The output of nights is written to {job.log}. To end the schedule:")
        screen.tell(f"  {told_command(settings, 'unschedule')}")
    if not as_json:
        for doubt in doubts(settings):
            screen.warn(doubt)


@click.command()
@click.option("--all", "every", is_flag=True, help="The nights of all projects.")
@_JSON
@with_settings
def unschedule(every: bool, as_json: bool, **given: Any) -> None:  # noqa: FBT001, ANN401 - as above
    """Run no more nights for this project."""
    settings = settings_of(given)
    removed = scheduling.unschedule(settings, every=every)
    screen = Screen()
    if as_json:
        rows = [{"scheduler": system, "key": key} for system, key in removed]
        screen.show(json_bytes({"ok": True, "removed": rows}).decode().rstrip())
    elif removed:
        of = "of all projects" if every else f"of {settings.project.resolve()}"
        systems = ", ".join(dict.fromkeys(system for system, _ in removed))
        screen.show(f"no more nights {of}: removed from {systems}")
    else:
        screen.show("nothing was scheduled")


def _check_public(kept: Mapping[str, object], file: Path) -> None:
    """Refuse what others must not read: they can where nights are planned, and while they run."""
    for key, value in kept.items():
        several = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
        for each in several:
            hide = redact_personal if isinstance(each, str) else redact
            if hide(str(each)) != str(each):
                raise ConfigError(
                    f"{key}: others could read the secret or the personal data in it where nights "
                    f"are planned. Write it into {file} instead ({key}: ...) and leave the option "
                    f"--{key.replace('_', '-')} out"
                )


def _text(data: bytes) -> str:
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    return data.decode(encoding, errors="replace")
