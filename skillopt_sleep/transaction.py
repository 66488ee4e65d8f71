"""Several files are replaced together or not at all, whatever happens in between.

Each change of files is a folder: copies of what was there, a journal while it is under way, a
receipt when it is done. The receipt is the one step that makes it final; before it, everything is
undone, at once after an error or by the next command after a kill.

These folders are in the state folder of the user: what comes with a clone is never taken for them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.errors import StoreError
from skillopt.store.files import json_bytes, part_of, write_atomic
from skillopt.store.lock import RunLock, lock_holder
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.staging import digest, new_name, private_folder, slug

_JOURNAL: Final = "journal.json"
_RECEIPT: Final = "receipt.json"
_PRIVATE: Final = 0o600
_CONFLICT: Final = "conflict.json"
"""A journal that could not be undone whole, because somebody edited a file in between."""


class Disk:
    """Each step that a transaction takes on the disk."""

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def write(self, path: Path, data: bytes, mode: int | None = None) -> None:
        write_atomic(path, data, mode=mode)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        path.rmdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file that is to have other content, or to be there no more."""

    target: str
    path: Path
    before: bytes | None
    after: bytes | None
    after_mode: int | None = None
    """The rights that it is to have; none: those that it has, or those of any new file."""
    remove_folders: tuple[Path, ...] = ()
    """Folders that go with the file, the innermost first, where nothing else is in them."""


class ChangedFile(BaseModel):
    """A changed file in a journal or receipt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str
    path: Path
    sha256_before: str
    sha256_after: str
    backup: str = ""
    """The copy of what was there, in the folder of the transaction; empty: nothing was."""
    mode: int | None = None
    made_folders: tuple[Path, ...] = ()
    """The innermost first."""


class Receipt(BaseModel):
    """What a transaction did, and what it takes to undo it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["adopt", "rollback"]
    name: str
    at: datetime
    process: int
    night: str = ""
    """The night whose proposals were adopted."""
    undoes: str = ""
    """The adoption that was taken back."""
    files: tuple[ChangedFile, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found of a change that was stopped half-way, and undone."""

    kind: Literal["adopt", "rollback"]
    name: str
    restored: tuple[Path, ...]
    conflicts: tuple[Path, ...]
    """Files that somebody edited in between; they are left as they are."""
    kept: Path | None = None
    """Where copies are, if there are conflicts."""

    @property
    def words(self) -> str:
        """It in one sentence, with every file that changed or should have."""
        what = "an adoption" if self.kind == "adopt" else "a rollback"
        told = f"{what} that was stopped half-way ({self.name}) was undone"
        if self.restored:
            told += f"; restored: {', '.join(map(str, self.restored))}"
        for path in self.conflicts:
            told += f"; {path} was edited meanwhile and left alone, its copy is in {self.kept}"
        return f"{told}."


@contextmanager
def one_at_a_time(state: Path) -> Generator[None, None, None]:
    """One process of the user changes documents or schedules; the lock of a dead one is free.

    Raises:
        StoreError: Another process holds it.
    """
    folder = private_folder(state) / "adopting"
    with ExitStack() as held:
        try:
            held.enter_context(RunLock(folder))
        except StoreError as error:
            if (holder := lock_holder(folder)) is None:
                raise
            raise StoreError(
                f"another process adopts, rolls back or schedules ({holder or 'just started'}); "
                "wait until it ends, then run the same command again"
            ) from error
        yield


def records_of(settings: Settings) -> Path:
    """Where the journals, receipts and copies of a project are."""
    return home_of(settings) / "adoptions" / slug(settings.project.expanduser().resolve())


def receipts(records: Path) -> list[Receipt]:
    """All changes that were made for a project, the newest first.

    Raises:
        StoreError: A receipt is damaged.
    """
    found = records.glob(f"*/{_RECEIPT}")
    read = [_read(path) for path in found]
    return sorted(read, key=lambda receipt: (receipt.at, len(receipt.name), receipt.name))[::-1]


def backup_of(records: Path, receipt: Receipt, file: ChangedFile) -> bytes | None:
    """What was there before; none if nothing was.

    Raises:
        RefusedChange: The copy is gone or was changed.
    """
    if not file.backup:
        return None
    path = records / receipt.name / Path(file.backup).name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RefusedChange(f"the copy {path} cannot be read: {error.strerror}") from None
    if digest(data) != file.sha256_before:
        raise RefusedChange(f"the copy {path} was changed, so that nothing can be restored from it")
    return data


def apply(
    records: Path,
    changes: Sequence[Change],
    *,
    kind: Literal["adopt", "rollback"],
    now: datetime,
    night: str = "",
    undoes: str = "",
    check: Callable[[Path], None],
    disk: Disk,
) -> Receipt:
    """Make all changes or none; to be called with the lock and after `recover`.

    Raises:
        RefusedChange: A file is not what it was when the change was prepared.
        StoreError: Something cannot be written.
    """
    folder = _new_folder(records, now, disk)
    try:
        receipt = Receipt(
            kind=kind,
            name=folder.name,
            at=now.astimezone(timezone.utc),
            process=os.getpid(),
            night=night,
            undoes=undoes,
            files=tuple(_planned(change, number) for number, change in enumerate(changes)),
        )
        for change, file in zip(changes, receipt.files, strict=True):
            if change.before is not None:
                disk.write(folder / file.backup, change.before, _PRIVATE)
        disk.write(folder / _JOURNAL, _bytes(receipt), _PRIVATE)
        for change, file in zip(changes, receipt.files, strict=True):
            _make(change, file, disk)
        disk.write(folder / _RECEIPT, _bytes(receipt), _PRIVATE)
        disk.remove(folder / _JOURNAL)
    except BaseException as error:
        recover(records, check, disk)
        if (folder / _RECEIPT).exists():  # it was final before the error
            return _read(folder / _RECEIPT)
        if isinstance(error, OSError):
            raise StoreError(f"nothing was changed: {error}") from error
        raise
    return receipt


def stopped_half_way(records: Path) -> list[Receipt]:
    """Changes that a killed process left, which the next `recover` undoes; without the lock.

    Raises:
        StoreError: A journal is damaged.
    """
    over = (_RECEIPT, _CONFLICT)
    return [
        _read(journal)
        for journal in sorted(records.glob(f"*/{_JOURNAL}"))
        if not any(journal.with_name(name).exists() for name in over)
    ]


def half_way(stopped: Receipt) -> str:
    """Such a change in words."""
    what = "an adoption" if stopped.kind == "adopt" else "a rollback"
    return (
        f"{what} was stopped half-way ({stopped.name}); the next run, adopt or rollback undoes it"
    )


def recover(
    records: Path, check: Callable[[Path], None], disk: Disk | None = None
) -> list[Recovery]:
    """Undo what was stopped half-way; to be called with the lock.

    Args:
        records: Where the journals are.
        check: Refuses a path that an adoption would not write.
        disk: What carries out each step.

    Raises:
        RefusedChange: A journal names a file that may not be written. Nothing of it was undone.
        StoreError: Something cannot be written or is damaged.
    """
    folders = sorted(path for path in records.glob("*") if path.is_dir())
    try:
        found = [_recover_one(folder, check, disk or Disk()) for folder in folders]
    except OSError as error:
        raise StoreError(
            f"a change that was stopped half-way cannot be undone: {error}. Make room or fix the "
            "rights, then run the same command again."
        ) from error
    return [recovery for recovery in found if recovery]


def live_bytes(path: Path) -> bytes | None:
    """What a document holds at this moment; none if there is no file.

    Raises:
        RefusedChange: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedChange(f"{path} cannot be read: {error.strerror}") from None


def _bytes(receipt: Receipt) -> bytes:
    return json_bytes(receipt.model_dump(mode="json"))


def _read(path: Path) -> Receipt:
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise StoreError(
            f"{path} is damaged ({error.error_count()} errors); the copies are beside it. Restore "
            "by hand what is needed, then remove the folder."
        ) from None


def _new_folder(parent: Path, now: datetime, disk: Disk) -> Path:
    try:
        for folder in (parent.parent, parent):
            if not folder.is_dir():
                disk.make_folder(folder)
        number = 0
        while (folder := parent / new_name(now, number)).exists():
            number += 1
        disk.make_folder(folder)
    except OSError as error:
        raise StoreError(f"nothing was changed: {error}") from error
    return folder


def _planned(change: Change, number: int) -> ChangedFile:
    missing: list[Path] = []
    if change.after is not None:
        missing = [folder for folder in change.path.parents if not folder.exists()]
    state = None if change.before is None else change.path.lstat()
    return ChangedFile(
        target=change.target,
        path=change.path,
        sha256_before=digest(change.before),
        sha256_after=digest(change.after),
        backup="" if change.before is None else f"before-{number}-{change.path.name}",
        mode=None if state is None else stat.S_IMODE(state.st_mode),
        made_folders=tuple(missing),
    )


def _make(change: Change, file: ChangedFile, disk: Disk) -> None:
    if digest(live_bytes(change.path)) != file.sha256_before:
        raise RefusedChange(f"{change.path} was edited just now; nothing was changed")
    for folder in reversed(file.made_folders):
        if not folder.is_dir():  # another file of the same folder may have needed it
            disk.make_folder(folder)
    if change.after is None:
        disk.remove(change.path)
        _remove_empty(change.remove_folders, disk)
    else:
        mode = file.mode if change.after_mode is None else change.after_mode
        disk.write(change.path, change.after, mode)
    if digest(live_bytes(change.path)) != file.sha256_after:
        raise RefusedChange(f"{change.path} is not what was written to it; nothing was changed")


def _recover_one(folder: Path, check: Callable[[Path], None], disk: Disk) -> Recovery | None:
    """Undo a transaction without a receipt; none if there is nothing to undo."""
    if (folder / _RECEIPT).exists() or (folder / _CONFLICT).exists():
        if (folder / _JOURNAL).exists():
            disk.remove(folder / _JOURNAL)
        return None
    if not (folder / _JOURNAL).exists():  # nothing was changed yet
        shutil.rmtree(folder, ignore_errors=True)
        return None
    journal = _read(folder / _JOURNAL)
    for file in journal.files:
        check(file.path)
        if not set(file.made_folders) <= set(file.path.parents):
            raise RefusedChange(
                f"{folder / _JOURNAL} names folders that {file.path} is not in; remove {folder} "
                "if it is not yours"
            )
    restored: list[Path] = []
    conflicts: list[Path] = []
    for file in reversed(journal.files):
        if (part := part_of(file.path, journal.process)).exists():
            disk.remove(part)
        live = digest(live_bytes(file.path))
        if live not in (file.sha256_before, file.sha256_after):
            conflicts.append(file.path)
            continue
        if live != file.sha256_before:
            _restore(folder, file, disk)
            restored.append(file.path)
        _remove_empty(file.made_folders, disk)
    if conflicts:
        disk.write(folder / _CONFLICT, _bytes(journal), _PRIVATE)
        disk.remove(folder / _JOURNAL)
        return Recovery(journal.kind, folder.name, tuple(restored), tuple(conflicts), folder)
    disk.remove(folder / _JOURNAL)
    shutil.rmtree(folder, ignore_errors=True)
    return Recovery(journal.kind, folder.name, tuple(restored), ())


def _restore(folder: Path, file: ChangedFile, disk: Disk) -> None:
    if not file.backup:
        disk.remove(file.path)
        return
    for parent in reversed([each for each in file.path.parents if not each.exists()]):
        disk.make_folder(parent)
    disk.write(file.path, (folder / Path(file.backup).name).read_bytes(), file.mode)


def _remove_empty(folders: Sequence[Path], disk: Disk) -> None:
    for folder in folders:
        if folder.is_dir():
            if any(folder.iterdir()):
                return
            disk.remove_folder(folder)
