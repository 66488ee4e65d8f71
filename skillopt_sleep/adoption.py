"""Adopts what a night proposes, and takes it back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path

from skillopt.core.nearest import did_you_mean
from skillopt_sleep.errors import NothingToAdopt, RefusedChange
from skillopt_sleep.settings import Settings, home_of
from skillopt_sleep.staging import (
    PAIR,
    StagedFile,
    StagedNight,
    digest,
    known_night,
    nights,
)
from skillopt_sleep.targets import check_allowed, check_distinct, check_place
from skillopt_sleep.transaction import (
    Change,
    ChangedFile,
    Disk,
    Receipt,
    Recovery,
    apply,
    backup_of,
    live_bytes,
    one_at_a_time,
    receipts,
    records_of,
    recover,
)


class Only(Enum):
    """Parts of a night without naming each of them."""

    PAIR = "the managed skill and the memory file"
    SKILLS = "the skills of their own"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A night with proposals that were neither adopted nor taken back nor replaced by others."""

    night: StagedNight
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command changed, and what it found half-done and undid first."""

    receipt: Receipt
    recovered: tuple[Recovery, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    """Nights that wait still."""


def pending(settings: Settings) -> list[Waiting]:
    """Nights that wait for adoption, the newest first; rejected nights hide none of them.

    Only those that the state folder knows: others may have come with a clone.

    A proposal is replaced by one of a newer accepted night for the same file: both were made from
    the same document, and the newer one knows more. One that was taken back waits no more.

    Raises:
        RefusedChange: A manifest was changed after the night.
        StoreError: A manifest or receipt is damaged.
    """
    project = settings.project.expanduser().resolve()
    done = {
        (receipt.night, file.target)
        for receipt in receipts(records_of(settings))
        if receipt.kind == "adopt"
        for file in receipt.files
    }
    waiting: list[Waiting] = []
    replaced: set[Path] = set()
    for night in nights(project, home_of(settings)):
        files = [file for file in night.files if file.path not in replaced]
        replaced |= {file.path for file in night.files}
        if left := tuple(file for file in files if (night.name, file.target) not in done):
            waiting.append(Waiting(night, left))
    return waiting


def adopt(
    settings: Settings,
    *,
    staging: Path | None = None,
    targets: Collection[str] | Only | None = None,
    home: Path | None = None,
    now: datetime | None = None,
    disk: Disk | None = None,
) -> Outcome:
    """Write what a night proposes to where it lives: all of the files, or none.

    Args:
        settings: The project, and which files may be written.
        staging: The folder of a night; none: the newest that waits.
        targets: Which of its proposals: `skill`, `memory`, names of skills. None: skill and
            memory, and if the night has others it is refused, with their names.
        home: The user's home.
        now: The time.
        disk: What carries out each step.

    Raises:
        NothingToAdopt: No night waits, or all of it was adopted already.
        RefusedChange: A document was edited since the night, leads elsewhere, or is none of those
            that may be written. Nothing was changed.
        StoreError: A file is damaged or cannot be written. Nothing was changed.
    """
    records, disk = records_of(settings), disk or Disk()

    def check(path: Path) -> None:
        _check(settings, path, path.parent, home)

    with one_at_a_time(home_of(settings)):
        recovered = recover(records, check, disk)
        night, files = _chosen(settings, staging, targets)
        changes = [_adopting(settings, night, file, home) for file in files]
        check_distinct([change.path for change in changes])
        changes = [change for change in changes if change.after != change.before]
        if not changes:
            raise NothingToAdopt(f"{night.folder}: all of it is in place already")
        receipt = apply(
            records,
            changes,
            kind="adopt",
            now=now or _now(),
            night=night.name,
            check=check,
            disk=disk,
        )
    return Outcome(receipt, tuple(recovered), tuple(pending(settings)))


def rollback(
    settings: Settings,
    name: str = "",
    *,
    home: Path | None = None,
    now: datetime | None = None,
    disk: Disk | None = None,
) -> Outcome:
    """Put every file of an adoption back as it was: bytes, rights, or its absence.

    Args:
        settings: The project, and which files may be written.
        name: The adoption, as `adopt` and `status` name it; empty: the last one.
        home: The user's home.
        now: The time.
        disk: What carries out each step.

    Raises:
        NothingToAdopt: There is no such adoption, or it was taken back already.
        RefusedChange: A document was edited since. Nothing was changed.
        StoreError: A file is damaged or cannot be written. Nothing was changed.
    """
    records, disk = records_of(settings), disk or Disk()

    def check(path: Path) -> None:
        _check(settings, path, path.parent, home)

    with one_at_a_time(home_of(settings)):
        recovered = recover(records, check, disk)
        receipt = _taken(receipts(records), name, settings.project.resolve())
        changes = [_returning(settings, receipt, file, home) for file in receipt.files]
        undone = apply(
            records,
            changes,
            kind="rollback",
            now=now or _now(),
            undoes=receipt.name,
            check=check,
            disk=disk,
        )
    return Outcome(undone, tuple(recovered), tuple(pending(settings)))


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _chosen(
    settings: Settings, staging: Path | None, targets: Collection[str] | Only | None
) -> tuple[StagedNight, Sequence[StagedFile]]:
    project = settings.project.resolve()
    if staging is not None:
        night = known_night(staging, project, home_of(settings))
        files = night.files
    else:
        waiting = pending(settings)
        if not waiting:
            raise NothingToAdopt(
                f"no night waits for adoption in {project}. `skillopt-sleep status` tells what the "
                "last nights found, `skillopt-sleep run` begins another."
            )
        night, files = waiting[0].night, waiting[0].files
    if not files:
        raise NothingToAdopt(f"{night.folder}: this night proposes nothing")
    return night, _selected(night, files, targets)


def _selected(
    night: StagedNight, files: Sequence[StagedFile], targets: Collection[str] | Only | None
) -> Sequence[StagedFile]:
    names = [file.target for file in files]
    if targets is None:
        if own := [name for name in names if name not in PAIR]:
            raise RefusedChange(
                f"{night.folder} proposes several skills: {', '.join(own)}. Choose: --skill NAME, "
                "--all-skills, or --legacy for the managed skill and the memory file alone."
            )
        return files
    if isinstance(targets, Only):
        chosen = [file for file in files if (file.target in PAIR) == (targets is Only.PAIR)]
        if not chosen:
            raise NothingToAdopt(f"{night.folder} proposes nothing for {targets.value}")
        return chosen
    for target in targets:
        if target not in names:
            near = did_you_mean(target, names) or f"it has {', '.join(names)}"
            raise RefusedChange(f"{night.folder} proposes nothing for {target!r}; {near}")
    return [file for file in files if file.target in targets]


def _adopting(
    settings: Settings, night: StagedNight, file: StagedFile, home: Path | None
) -> Change:
    after = night.proposal(file)
    _check(settings, file.path, file.root, home)
    live = live_bytes(file.path)
    if digest(live) not in (file.live_sha256, file.sha256):
        raise RefusedChange(
            f"{file.path} was edited since the night of {night.name}, so that its proposal no "
            "longer fits. Nothing was changed. The next night begins from the file as it is now; "
            f"the proposal is {night.folder / file.proposed_file}."
        )
    return Change(target=file.target, path=file.path, before=live, after=after)


def _taken(made: Sequence[Receipt], name: str, project: Path) -> Receipt:
    undone = {receipt.undoes for receipt in made}
    adoptions = [receipt for receipt in made if receipt.kind == "adopt"]
    for receipt in adoptions:
        if name in ("", receipt.name) and receipt.name not in undone:
            return receipt
    if name and name in undone:
        raise NothingToAdopt(f"the adoption {name} was taken back already")
    names = ", ".join(receipt.name for receipt in adoptions if receipt.name not in undone)
    raise NothingToAdopt(
        f"there is no adoption {name} in {project}; it has {names}"
        if name and names
        else f"nothing was adopted in {project} that could be taken back{_earlier(project)}"
    )


def _earlier(project: Path) -> str:
    """Where copies of adoptions are that were made before these were kept in the state folder."""
    for pattern in ("adoptions/*", "staging/*/backup"):
        for place in sorted((project / ".skillopt-sleep").glob(pattern), reverse=True):
            return (
                "; an earlier version adopted here, and its copies are not trusted, because a "
                f"clone can bring such: copy back by hand what you want from {place}"
            )
    return ""


def _returning(
    settings: Settings, receipt: Receipt, file: ChangedFile, home: Path | None
) -> Change:
    _check(settings, file.path, file.path.parent, home)
    live = live_bytes(file.path)
    if digest(live) != file.sha256_after:
        raise RefusedChange(
            f"{file.path} was edited since the adoption {receipt.name} (or a later one changed it: "
            "take that back first). Nothing was changed."
        )
    return Change(
        target=file.target,
        path=file.path,
        before=live,
        after=backup_of(records_of(settings), receipt, file),
        after_mode=file.mode,
        remove_folders=file.made_folders,
    )


def _check(settings: Settings, path: Path, root: Path, home: Path | None) -> None:
    if not path.is_absolute() or ".." in path.parts:
        raise RefusedChange(f"{path} is no absolute path, and is not written")
    if (real := check_place(path, root)) != path:
        raise RefusedChange(f"{path} has become a link to {real}; nothing was changed")
    check_allowed(settings, path, home=home)
