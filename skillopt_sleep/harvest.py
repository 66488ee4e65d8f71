"""Gathers the sessions of all agent programs, oldest first, and says up to when that reaches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final, TypeGuard

from skillopt.config.registry import Registry
from skillopt.errors import ConfigError, DataError, PartError, SkilloptError
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.mining import mine
from skillopt_sleep.settings import Settings, located
from skillopt_sleep.task_file import TaskFile, read_tasks, write_tasks
from skillopt_sleep.values import MinedTask, Session, SessionsRead, Source

AUTO: Final = "auto"
_PER_TASK: Final = 3
"""Sessions for each task that is wanted, where no limit is set."""
OTHER_PROJECT: Final = "another project"
FUTURE: Final = "of a time that has not come yet"
_CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""How far the clock of whoever wrote a session may be ahead of ours."""


def _is_source(part: object) -> TypeGuard[Callable[[Settings], Source]]:
    return callable(part) and hasattr(part, "sessions")


SOURCES: Final = Registry("skillopt_sleep.sources", "source", _is_source, (AUTO,))


@dataclass(frozen=True, slots=True)
class SourceHarvest:
    """What one agent program had."""

    source: str
    sessions: int
    skipped: Mapping[str, int]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """The sessions of a night."""

    sessions: tuple[Session, ...]
    """Oldest first."""
    sources: tuple[SourceHarvest, ...]
    checkpoint: datetime | None
    """Up to when sessions were taken: the next harvest sets out from it. None: none were taken."""
    left: int = 0
    """Sessions that are too many for this night; later ones take them up."""

    @property
    def skipped(self) -> dict[str, int]:
        """How many were left out, by reason, over all sources."""
        counts: dict[str, int] = {}
        for source in self.sources:
            for reason, number in source.skipped.items():
                counts[reason] = counts.get(reason, 0) + number
        return dict(sorted(counts.items()))

    @property
    def notices(self) -> tuple[str, ...]:
        """What could not be read, and where."""
        return tuple(notice for source in self.sources for notice in source.notices)


def harvest(settings: Settings, since: datetime | None, now: datetime) -> Harvest:
    """The sessions that ended after `since`, a checkpoint of an earlier night.

    Without one, as far back as `lookback_hours` says. The oldest come first, and what exceeds
    `max_sessions` is left for later: the checkpoint never passes a session that was not taken.
    Nor does it pass `now`: a session with a wrong date would hide all that come before it.

    Raises:
        ConfigError: A source that was named does not exist.
    """
    if since is None and settings.lookback_hours > 0:
        since = now - timedelta(hours=settings.lookback_hours)
    since = None if since is None else min(since, now)
    found: list[Session] = []
    sources: list[SourceHarvest] = []
    for source in sources_of(settings):
        read = _read(source, since)
        inside = [each for each in read.sessions if _in_scope(each.project, settings)]
        past = [each for each in inside if each.ended <= now + _CLOCKS_DIFFER]
        left_out = {
            OTHER_PROJECT: len(read.sessions) - len(inside),
            FUTURE: len(inside) - len(past),
        }
        skipped = {**read.skipped, **{why: count for why, count in left_out.items() if count}}
        sources.append(SourceHarvest(source.name, len(past), skipped, read.notices))
        found += past
    found.sort(key=lambda session: (session.ended, session.source, session.id))
    taken = _first(found, settings.max_sessions or _PER_TASK * settings.max_tasks)
    return Harvest(
        sessions=tuple(taken),
        sources=tuple(sources),
        checkpoint=min(taken[-1].ended, now) if taken else None,
        left=len(found) - len(taken),
    )


@dataclass(frozen=True, slots=True)
class Harvested:
    """What `harvest` finds: sessions, and the tasks that are in them."""

    harvest: Harvest
    tasks: tuple[MinedTask, ...]


def harvest_tasks(
    settings: Settings, output: Path | None = None, *, force: bool = False
) -> Harvested:
    """Read sessions and mine tasks without a model, and write a task file if one is named.

    Nothing else is written: the next night sees the same sessions.

    Raises:
        ConfigError: The project is not a folder, or a source that was named does not exist.
        RefusedChange: The file is there and somebody's work; `force` replaces it.
    """
    settings = located(settings)
    if output is not None and not force:
        _check_replaceable(output)
    gathered = harvest(settings, None, datetime.now(timezone.utc))
    tasks = mine(gathered.sessions, settings)
    if output is not None:
        target = settings.target_skill_path
        file = TaskFile(
            project=settings.project,
            tasks=tasks,
            source=",".join(each.source for each in gathered.sources),
            sessions=len(gathered.sessions),
            target_skill=str(target) if target else "",
        )
        write_tasks(output, file)
    return Harvested(gathered, tasks)


def _check_replaceable(output: Path) -> None:
    """Refuse to replace what is no task file, and a task file that a person has worked on."""
    if not os.path.lexists(output):
        return
    try:
        why = "was reviewed by you" if read_tasks(output).reviewed else ""
    except DataError as error:
        why = f"is there and is no task file ({error})"
    if why:
        raise RefusedChange(
            f"{output} {why}. Nothing was changed. Name another file, or replace it with --force"
        )


def sources_of(settings: Settings) -> list[Source]:
    """The sources that are named; `auto`: all of which there is something here.

    Raises:
        ConfigError: There is no source of this name, or no file that was named as one.
    """
    file = settings.sessions_file
    if file is not None and not file.expanduser().is_file():
        raise ConfigError(f"sessions_file: {file} is no file")
    names = source_names(settings)
    if AUTO in names or not names:
        every = [SOURCES.load(name)(settings) for name in SOURCES.names]
        return [source for source in every if source.found()]
    return [SOURCES.load(name)(settings) for name in dict.fromkeys(names)]


def source_names(settings: Settings) -> list[str]:
    """The sources that are named.

    Raises:
        ConfigError: There is no source of this name.
    """
    names = [name.strip() for name in settings.source.split(",") if name.strip()]
    for name in names:
        if name != AUTO and (problem := SOURCES.unknown(name)):
            raise ConfigError(f"source: {problem}")
    return names


def _read(source: Source, since: datetime | None) -> SessionsRead:
    """The sessions of a source; one that somebody else wrote may do anything."""
    try:
        return source.sessions(since)
    except SkilloptError:
        raise
    except Exception as error:
        raise PartError(f"the source {source.name!r} failed: {error}") from error


def _first(sessions: Sequence[Session], most: int) -> list[Session]:
    """The oldest sessions; those that ended at the same moment as the last one belong to it."""
    taken = list(sessions[:most])
    return taken + [
        session for session in sessions[most:] if taken and session.ended == taken[-1].ended
    ]


def _in_scope(project: Path, settings: Settings) -> bool:
    if settings.scope == "all":
        return True
    here, there = _real(settings.project), _real(project)
    return there == here or here in there.parents


def _real(path: Path) -> Path:
    return Path(os.path.normcase(os.path.realpath(path)))
