"""How Sleep stands with a project: its nights, what waits for adoption, what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from skillopt.errors import StoreError
from skillopt.store.lock import lock_holder
from skillopt_sleep.adoption import Waiting, readable
from skillopt_sleep.schedule import planned_by
from skillopt_sleep.settings import Settings, home_of, located, told_command
from skillopt_sleep.staging import slug
from skillopt_sleep.state import ASKED, NightRecord, kept_in, load_state, waits
from skillopt_sleep.task_file import digest_of
from skillopt_sleep.transaction import Receipt, receipts, records_of, stopped_half_way

_NAMES: Final = TypeAdapter(list[str])
_GIVEN: Final = TypeAdapter(dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """A night that waits for answers of the user's agent (backend `handoff`)."""

    night: int
    files: tuple[Path, ...]
    """Those that have no answer yet."""
    settings: Mapping[str, object]
    """What the night was begun with, where it is not the default; it goes on with the same."""
    changed: str = ""
    """Its task file, if that holds something else now: the night goes on only with what it held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepStatus:
    """What is known about a project."""

    project: Path
    home: Path
    look_command: str
    adopt_command: str
    """It adopts all that can be had of the newest night that waits; empty: nothing can."""
    rollback_command: str
    """It takes the last adoption back; empty: there is none."""
    nights: tuple[NightRecord, ...]
    """Its nights, the newest first."""
    waiting: tuple[Waiting, ...]
    """Nights with proposals, the newest first."""
    changes: tuple[Receipt, ...]
    """Adoptions and rollbacks, the newest first."""
    half_done: tuple[Receipt, ...]
    """Those that were stopped half-way; the next run, adopt or rollback undoes them."""
    scheduled: tuple[str, ...]
    """Schedulers by which nights are planned."""
    problems: tuple[str, ...]
    """Nights that are damaged or were changed."""
    questions: tuple[Questions, ...]
    """Nights that wait for answers, the newest first."""
    under_way: str | None
    """Who runs a night now; none: nobody."""
    archived: int
    """Tasks that are remembered."""
    rejected: int
    """Edits that are remembered as rejected."""


def status(settings: Settings) -> SleepStatus:
    """How Sleep stands with a project; writes nothing.

    Raises:
        ConfigError: The project is not a folder.
        StoreError: The state or a receipt is damaged.
    """
    settings = located(settings)
    project, home = settings.project, home_of(settings)
    state = load_state(home)
    known = state.project(project)
    own = [record for record in state.history if record.project == str(project)]
    entries = [entry for each in known.documents.values() for entry in each.entries()]
    waiting, problems = readable(settings)
    questions, damaged = _questions(settings)
    choice = waiting[0].choice if waiting else None
    records = records_of(settings)
    changes = receipts(records)
    undone = {receipt.undoes for receipt in changes}
    last = next(
        (each for each in changes if each.kind == "adopt" and each.name not in undone), None
    )
    return SleepStatus(
        project=project,
        home=home,
        look_command=told_command(settings, "dry-run"),
        adopt_command="" if choice is None else told_command(settings, "adopt", *choice),
        rollback_command=told_command(settings, "rollback", last.name) if last else "",
        nights=tuple(reversed(own)),
        waiting=tuple(waiting),
        changes=tuple(changes),
        half_done=tuple(stopped_half_way(records)),
        scheduled=tuple(planned_by(project)),
        problems=tuple(map(str, (*problems, *damaged))),
        questions=tuple(questions),
        under_way=lock_holder(home / "nights"),
        archived=len(known.archive),
        rejected=sum(len(entry.rejected) for entry in entries),
    )


def _questions(settings: Settings) -> tuple[list[Questions], list[StoreError]]:
    """Nights that wait for answers, and those of which that cannot be read."""
    home = home_of(settings)
    found: list[Questions] = []
    damaged: list[StoreError] = []
    for place in sorted((home / "nights" / slug(settings.project)).glob("[0-9]*"), reverse=True):
        if waits(place):
            try:
                found.append(_asked(place, settings))
            except StoreError as error:
                damaged.append(error)
    return found, damaged


def _asked(place: Path, settings: Settings) -> Questions:
    asked = kept_in(place / ASKED, _NAMES)
    given = kept_in(place / "settings.json", _GIVEN)
    usual = Settings().model_dump(mode="json")
    changed = {
        name: value for name, value in given.items() if name in usual and value != usual[name]
    }
    if settings.state_dir is not None:
        changed["state_dir"] = settings.state_dir
    path = str(given.get("tasks_file") or "")
    held = not path or digest_of(Path(path)) == given.get("tasks")
    return Questions(
        night=int(place.name),
        files=tuple(place / name for name in asked if not _answered(place / name)),
        settings=changed,
        changed="" if held else path,
    )


def _answered(question: Path) -> bool:
    answer = question.with_name(question.name.replace(".question.md", ".answer.md"))
    try:
        return bool(answer.read_bytes().strip())
    except OSError:
        return False


def moment(seconds: float) -> str:
    """A time for people: local, with its zone."""
    local = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    return local.strftime("%Y-%m-%d %H:%M %Z")
