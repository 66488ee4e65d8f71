"""Adopts what a night proposes, and takes it back."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path

from skillopt.core.nearest import did_you_mean
from skillopt.errors import SkilloptError
from skillopt_sleep.errors import NothingToAdopt, RefusedChange
from skillopt_sleep.settings import Settings, home_of, told_command
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
    stopped_half_way,
)


class Only(Enum):
    """Parts of a night without naming each of them."""

    PAIR = "the managed skill and the memory file"
    SKILLS = "skills besides the managed one"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A night with proposals that were neither adopted nor taken back nor replaced by others."""

    night: StagedNight
    files: tuple[StagedFile, ...]
    edited: tuple[StagedFile, ...] = ()
    """Those of them whose document was edited since, so that they can no longer be adopted."""

    @property
    def choice(self) -> list[str] | None:
        """The options with which `adopt` takes all of it that can be had; none: nothing can."""
        names = [file.target for file in self.files if file not in self.edited]
        return choosing(names, every=not self.edited) if names else None


def choosing(targets: Sequence[str], *, every: bool = True) -> list[str]:
    """The options with which `adopt` takes these proposals; `every`: a night has no others."""
    if every and all(name in PAIR for name in targets):
        return []
    return [word for name in targets for word in ("--skill", name)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command changed, and what it found half-done and undid first."""

    receipt: Receipt | None
    """None: undoing what was half-done was all that there was to do."""
    recovered: tuple[Recovery, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    """Nights that wait still."""

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        return () if self.receipt is None else self.receipt.files


def pending(settings: Settings) -> list[Waiting]:
    """Nights that wait for adoption, the newest first; rejected nights hide none of them.

    Only those that the state folder knows: others may have come with a clone.

    A proposal is replaced by one of a newer accepted night for the same file: both were made from
    the same document, and the newer one knows more. One that was taken back waits no more.

    Raises:
        RefusedChange: A manifest was changed after the night.
        StoreError: A manifest or receipt is damaged.
    """
    waiting, problems = readable(settings)
    if problems:
        raise problems[0]
    return waiting


def readable(settings: Settings) -> tuple[list[Waiting], list[SkilloptError]]:
    """The same without nights that are damaged or were changed; these are told beside it.

    Raises:
        StoreError: A receipt is damaged.
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
    found, problems = nights(project, home_of(settings))
    for night in found:
        files = [file for file in night.files if file.path not in replaced]
        replaced |= {file.path for file in night.files}
        if left := tuple(file for file in files if (night.name, file.target) not in done):
            waiting.append(Waiting(night, left, tuple(file for file in left if not _fits(file))))
    return waiting, problems


def recovered(
    settings: Settings, *, home: Path | None = None, disk: Disk | None = None
) -> tuple[Recovery, ...]:
    """Undo what a killed process left half-done, if there is any.

    Raises:
        RefusedChange: A file of it may not be written. Nothing of it was undone.
        StoreError: Something cannot be written or is damaged, or another process adopts.
    """
    if not stopped_half_way(records_of(settings)):
        return ()
    with one_at_a_time(home_of(settings)):
        return _recovered(settings, home, disk or Disk())


def adopt(
    settings: Settings,
    *,
    staging: Path | None = None,
    targets: Collection[str] | Only | None = None,
    home: Path | None = None,
    now: datetime | None = None,
    disk: Disk | None = None,
) -> Outcome:
    """Write what a night proposes to its files: all of them, or none.

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
    disk = disk or Disk()
    with _recovering(settings, home, disk) as undone:
        night, files = _chosen(settings, staging, targets)
        changes = [_adopting(settings, night, file, home) for file in files]
        edited = [
            file
            for file, change in zip(files, changes, strict=True)
            if not _is_known(file, change.before)
        ]
        _check_unedited(settings, night, files, edited)
        check_distinct([change.path for change in changes])
        changes = [change for change in changes if change.after != change.before]
        if not changes:
            raise NothingToAdopt(f"{night.folder}: all of it is in place already")
        receipt = apply(
            records_of(settings),
            changes,
            kind="adopt",
            now=now or _now(),
            night=night.name,
            check=lambda path: _check(settings, path, path.parent, home),
            disk=disk,
        )
    return Outcome(receipt, undone, tuple(readable(settings)[0]))


def rollback(
    settings: Settings,
    name: str = "",
    *,
    home: Path | None = None,
    now: datetime | None = None,
    disk: Disk | None = None,
) -> Outcome:
    """Put every file of an adoption back as it was: bytes, rights, or its absence.

    An adoption that was stopped half-way is the last one: if no other is named, undoing it is all.

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
    with _recovering(settings, home, disk) as undone:
        if not name and any(each.kind == "adopt" for each in undone):
            return Outcome(None, undone, tuple(readable(settings)[0]))
        receipt = _taken(receipts(records), name, settings.project.resolve())
        changes = [_returning(settings, receipt, file, home) for file in receipt.files]
        taken_back = apply(
            records,
            changes,
            kind="rollback",
            now=now or _now(),
            undoes=receipt.name,
            check=lambda path: _check(settings, path, path.parent, home),
            disk=disk,
        )
    return Outcome(taken_back, undone, tuple(readable(settings)[0]))


@contextmanager
def _recovering(
    settings: Settings, home: Path | None, disk: Disk
) -> Generator[tuple[Recovery, ...], None, None]:
    """The only process that adopts, with nothing half-done; a later error tells what was undone."""
    with one_at_a_time(home_of(settings)):
        undone = _recovered(settings, home, disk)
        try:
            yield undone
        except SkilloptError as error:
            error.args = ("\n".join([*(each.words for each in undone), str(error)]),)
            raise


def _recovered(settings: Settings, home: Path | None, disk: Disk) -> tuple[Recovery, ...]:
    def check(path: Path) -> None:
        _check(settings, path, path.parent, home)

    return tuple(recover(records_of(settings), check, disk))


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
    return night, _selected(settings, night, files, targets)


def _selected(
    settings: Settings,
    night: StagedNight,
    files: Sequence[StagedFile],
    targets: Collection[str] | Only | None,
) -> Sequence[StagedFile]:
    names = [file.target for file in files]
    if targets is None:
        if own := [name for name in names if name not in PAIR]:
            raise RefusedChange(
                f"{night.folder} proposes skills of yours: {', '.join(own)}. Choose: --skill NAME, "
                "--all-skills, or --legacy for the managed skill and the memory file alone."
            )
        return files
    if isinstance(targets, Only):
        chosen = [file for file in files if (file.target in PAIR) == (targets is Only.PAIR)]
        if not chosen:
            raise NothingToAdopt(f"{night.folder} proposes nothing for {targets.value}")
        return chosen
    if settings.managed_skill_name not in names:  # the managed skill has this name, too
        targets = ["skill" if name == settings.managed_skill_name else name for name in targets]
    for target in targets:
        if target not in names:
            near = did_you_mean(target, names) or f"it has {', '.join(names)}"
            raise RefusedChange(f"{night.folder} proposes nothing for {target!r}; {near}")
    return [file for file in files if file.target in targets]


def _check_unedited(
    settings: Settings,
    night: StagedNight,
    files: Sequence[StagedFile],
    edited: Sequence[StagedFile],
) -> None:
    """Refuse documents that were edited since the night, with what can be adopted without them."""
    if not edited:
        return
    told = " ".join(
        f"{file.path} was edited since the night of {night.name}, so that its proposal "
        f"({night.folder / file.proposed_file}) no longer fits."
        for file in edited
    )
    rest = Waiting(night, tuple(files), tuple(edited)).choice
    command = rest and told_command(settings, "adopt", "--staging", str(night.folder), *rest)
    raise RefusedChange(
        f"{told} Nothing was adopted. The next night begins from the document as it is now."
        + (f" To adopt the rest of this night:\n  {command}" if command else "")
    )


def _fits(file: StagedFile) -> bool:
    try:
        return _is_known(file, live_bytes(file.path))
    except RefusedChange:  # adopting it says why
        return False


def _is_known(file: StagedFile, live: bytes | None) -> bool:
    """Whether a document is what the night saw, or is changed as proposed already."""
    return digest(live) in (file.live_sha256, file.sha256)


def _adopting(
    settings: Settings, night: StagedNight, file: StagedFile, home: Path | None
) -> Change:
    after = night.proposal(file)
    _check(settings, file.path, file.root, home)
    return Change(target=file.target, path=file.path, before=live_bytes(file.path), after=after)


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
            "take that back first). Nothing was taken back."
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
        raise RefusedChange(f"{path} has become a link to {real} and is not written")
    check_allowed(settings, path, home=home)
