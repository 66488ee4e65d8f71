"""What Sleep remembers from night to night: one file, written in one go, never reset silently."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from skillopt.core.intake import MIB, read_file
from skillopt.core.memory import MemoryEntry
from skillopt.errors import StoreError
from skillopt.store.codec import problem
from skillopt.store.files import json_bytes, write_atomic
from skillopt.store.lock import RunLock, lock_holder
from skillopt_sleep.errors import NightUnderWay
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.staging import private_folder
from skillopt_sleep.values import MinedTask

VERSION: Final = 1
FILE: Final = "state.json"
FINISHED: Final = "finished"
"""The file that the folder of a night has when it is over."""
ASKED: Final = "asked.json"
"""The file with the questions for which a night waits, by their paths in its folder."""
_MOST_BYTES: Final = 64 * MIB
_ARCHIVED: Final = 300
_NIGHTS: Final = 200
_ENTRIES: Final = 30
"""Remembered steps of each document: enough to know what was tried, short enough for a prompt."""
_TASKS: Final = TypeAdapter(list[MinedTask])
_MEMORY: Final = TypeAdapter(list[MemoryEntry])

T = TypeVar("T")
Utc = Annotated[float, Field(ge=0)]
"""Seconds of the epoch, which know no time zone."""


class _Versioned(BaseModel):
    version: int


_VERSIONED: Final = TypeAdapter(_Versioned)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DocumentMemory(_Record):
    """What is remembered of one document."""

    lessons: str = ""
    """What the optimizer noted about editing it."""
    steps: list[dict[str, object]] = []

    def entries(self) -> tuple[MemoryEntry, ...]:
        return tuple(_MEMORY.validate_python(self.steps))

    def with_entries(self, entries: Sequence[MemoryEntry]) -> DocumentMemory:
        """The same with what these steps tried; those that tried nothing are not worth keeping."""
        kept = [
            replace(
                entry,
                step=0,
                epoch=0,
                kind="earlier night",
                patterns=tuple(replace(pattern, tasks=()) for pattern in entry.patterns),
            )
            for entry in entries
            if entry.accepted or entry.rejected or entry.undecided or entry.rejected_notes
        ]
        steps: list[dict[str, object]] = _MEMORY.dump_python(kept[-_ENTRIES:], mode="json")
        return DocumentMemory(lessons=self.lessons, steps=steps)


class NightRecord(_Record):
    """One night, for `status` and for those that come after it."""

    night: int
    project: str
    at: Utc
    accepted: list[str] = []
    """Documents that changed."""
    tasks: int = 0
    tokens: int = 0
    dollars: float = 0.0
    staging: str = ""
    models: str = ""
    failed: str = ""
    """Why nothing could be measured; empty: it was."""
    finished: bool = True
    """Whether it is over: if not, an error ended it, and the same command goes on with it."""


class ProjectState(_Record):
    """What is remembered of one project."""

    checkpoint: Utc | None = None
    """Up to when its sessions were taken."""
    last_night: Utc | None = None
    documents: dict[str, DocumentMemory] = {}
    """By path of the live file."""
    archive: list[dict[str, object]] = []
    """Tasks of earlier nights, oldest first."""

    def archived(self) -> list[MinedTask]:
        return _TASKS.validate_python(self.archive)

    def with_archived(self, tasks: Sequence[MinedTask]) -> list[dict[str, object]]:
        """The archive with these tasks; one that comes up again is kept once, as it is now.

        A task keeps the split in which it came up first: what was held out stays held out.
        """
        known = {task.id: task for task in self.archived()}
        for task in tasks:
            before = known.pop(task.id, None)
            known[task.id] = task if before is None else replace(task, split=before.split)
        rows: list[dict[str, object]] = _TASKS.dump_python(
            list(known.values())[-_ARCHIVED:], mode="json"
        )
        return rows


class State(_Record):
    """Everything that is remembered."""

    version: Literal[1] = VERSION
    night: int = 0
    projects: dict[str, ProjectState] = {}
    """By absolute path."""
    history: list[NightRecord] = []

    def project(self, path: Path) -> ProjectState:
        return self.projects.get(str(path), ProjectState())

    def after(self, record: NightRecord, project: ProjectState) -> State:
        """What is remembered after a night, also after another try at the same one."""
        named = (record.night, record.project)
        others = [each for each in self.history if (each.night, each.project) != named]
        return State(
            night=max(self.night, record.night),
            projects={**self.projects, record.project: project},
            history=[*others, record][-_NIGHTS:],
        )


def load_state(folder: Path) -> State:
    """What is remembered in a folder; nothing where there is no file.

    Raises:
        StoreError: The file is damaged or of a later version. It stays as it is.
    """
    path = folder / FILE
    try:
        text = read_file(path, _MOST_BYTES)
    except FileNotFoundError:
        return State()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        data: object = json.loads(text)
        version = _VERSIONED.validate_python(data).version
        if version > VERSION:
            raise StoreError(
                f"{path} was written by a later version (format {version}); update skillopt"
            )
        found = State.model_validate(data)
        for project in found.projects.values():
            project.archived()
            for document in project.documents.values():
                document.entries()
    except ValidationError as error:
        raise _damaged(path, problem(error)) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    return found


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} is damaged ({why}). It was not changed. Repair it, or move it away to start with "
        "nothing remembered"
    )


def save_state(folder: Path, state: State) -> None:
    """Replace the file in one go."""
    data = json_bytes(state.model_dump(mode="json"))
    write_atomic(private_folder(folder) / FILE, data, mode=0o600)


@contextmanager
def only_night(settings: Settings) -> Generator[Path, None, None]:
    """The folder of the nights, while no other process works in it.

    Raises:
        NightUnderWay: Wait, or do without.
    """
    folder = private_folder(home_of(settings)) / "nights"
    holder = lock_holder(folder)
    if holder is not None:
        raise NightUnderWay(
            f"another night is under way ({holder or 'just started'}); two never run at once. "
            "Wait until it ends, or stop it"
        )
    with RunLock(folder):
        yield folder


def utc(moment: datetime) -> float:
    """Seconds of the epoch of a moment, which knows its time zone."""
    if moment.tzinfo is None:
        raise ValueError("the time has no time zone")
    return moment.timestamp()


def waits(place: Path) -> bool:
    """Whether the night in a folder waits for answers of the user's agent."""
    return (place / ASKED).exists() and not (place / FINISHED).exists()


def kept_in(path: Path, kind: TypeAdapter[T]) -> T:
    """What a night wrote down into its folder.

    Raises:
        StoreError: It is damaged.
    """
    try:
        return kind.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        told = problem(error) if isinstance(error, ValidationError) else error.strerror
        raise StoreError(
            f"{path} is damaged ({told}), and its night cannot go on; remove {path.parent} to do "
            "without it"
        ) from None
