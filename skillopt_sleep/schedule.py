"""Nights by the scheduler of the system: cron, systemd, launchd or the Task Scheduler of Windows.

All of them call `skillopt-sleep run --if-due=HH:MM`, which does nothing if a night has run since
that time. So a call too many is harmless, and a night that was missed is caught up: cron calls
every hour, the others also when the machine is on again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from skillopt.errors import ConfigError
from skillopt_sleep.schedulers import (
    Cron,
    Job,
    Launchd,
    Scheduler,
    SchedulerError,
    Systemd,
    Windows,
    key_of,
)
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.transaction import one_at_a_time


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What is planned now."""

    system: str
    job: Job
    files: Mapping[str, bytes]


def schedulers() -> dict[str, Scheduler]:
    """All that are known, in the order in which they are tried on this system."""
    if sys.platform == "win32":
        order: tuple[Scheduler, ...] = (Windows(), Cron(), Systemd(), Launchd())
    elif sys.platform == "darwin":
        order = (Launchd(), Cron(), Systemd(), Windows())
    else:
        order = (Systemd(), Cron(), Launchd(), Windows())
    return {each.name: each for each in order}


def schedule(
    settings: Settings,
    *,
    arguments: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    hour: int = 3,
    minute: int = 17,
    system: str = "auto",
    write: bool = True,
) -> Scheduled:
    """Plan a night for every day, in the place of what was planned for this project.

    Args:
        settings: The project.
        arguments: Options for `skillopt-sleep run`, all of which are kept.
        variables: Of the environment, kept too; Windows keeps those of the user by itself.
        hour: Of the time of day at which a night is due.
        minute: The same.
        system: Which scheduler; `auto`: the first that can be used.
        write: Whether to plan it, or only to tell what would be written.

    Raises:
        ConfigError: The time is none, or there is no such scheduler.
        SchedulerError: None can be used, or the one that was chosen refused.
    """
    if not (0 <= hour < 24 and 0 <= minute < 60):
        raise ConfigError(f"{hour}:{minute:02} is no time of day (--hour 0-23, --minute 0-59)")
    known = schedulers()
    if system not in ("auto", *known):
        raise ConfigError(f"no scheduler {system!r} is known; there are {', '.join(known)}")
    project = settings.project.resolve()
    if not project.is_dir():
        raise ConfigError(f"--project {project} is no folder")
    logs = home_of(settings).absolute() / "logs"
    job = Job(
        project=project,
        arguments=tuple(arguments),
        hour=hour,
        minute=minute,
        log=logs / f"{key_of(project)}.log",
        variables=variables or {},
    )
    chosen = _chosen(known, system, job) if write or system == "auto" else known[system]
    files = chosen.files(job)
    if write:
        with _alone():
            logs.mkdir(parents=True, exist_ok=True)
            chosen.add(job)
            for other in known.values():
                if other is not chosen and other.usable() and job.key in other.planned():
                    other.remove(job.key)
    return Scheduled(chosen.name, job, files)


def unschedule(settings: Settings, *, every: bool = False) -> list[tuple[str, str]]:
    """Plan no more nights for this project, or for any; what was removed: scheduler and key.

    Raises:
        SchedulerError: A scheduler refused.
    """
    wanted = key_of(settings.project.resolve())
    removed: list[tuple[str, str]] = []
    with _alone():
        for scheduler in schedulers().values():
            if not scheduler.usable():
                continue
            for key in scheduler.planned():
                if every or key == wanted:
                    scheduler.remove(key)
                    removed.append((scheduler.name, key))
    return removed


def planned_by(project: Path) -> list[str]:
    """The schedulers that have a night of this project, as far as they answer."""
    key, found = key_of(project), list[str]()
    for scheduler in schedulers().values():
        with suppress(SchedulerError):
            if scheduler.usable() and key in scheduler.planned():
                found.append(scheduler.name)
    return found


def _alone() -> AbstractContextManager[None]:
    """A user has one crontab, whatever state folders their projects have."""
    return one_at_a_time(home_of(Settings()))


def _chosen(known: Mapping[str, Scheduler], system: str, job: Job) -> Scheduler:
    names = list(known) if system == "auto" else [system]
    for name in names:
        if known[name].usable():
            return known[name]
    line = "\n".join(text.decode(errors="replace") for text in known["cron"].files(job).values())
    raise SchedulerError(
        f"no scheduler can be used here ({', '.join(names)}). Call this once an hour by other "
        f"means, or install cron:\n{line.rstrip()}"
    )
