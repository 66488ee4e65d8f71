"""Nights as folders below the project: what each proposes, and what became of it.

A folder below a project may come with a clone, so the state folder of the user knows the SHA-256 of
each manifest that was written here; others are not adopted.

A night is whole when its `manifest.json` is there, which is written last. What was adopted and what
was taken back is told by the receipts of adoptions, so nothing in a night changes afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.errors import OldFormat, SkilloptError, StoreError
from skillopt.store.files import json_bytes, write_atomic
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.values import ProposedFile

SCHEMA: Final = "skillopt-sleep-staging"
VERSION: Final = 3
OWN: Final = ".skillopt-sleep"
PAIR: Final = ("skill", "memory")
"""The targets of the managed skill and the memory file; others are skills by their names."""
_MANIFEST: Final = "manifest.json"
_PRIVATE: Final = 0o600
_NIGHT: Final = re.compile(r"(\d{8}-\d{6})(?:-(\d+))?")
_PLAIN: Final = re.compile(r"[^\w.-]+")


class StagedFile(BaseModel):
    """A proposal in a manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str
    proposed_file: str
    path: Path
    root: Path
    sha256: str
    live_sha256: str
    """Of the file from which the night began; empty: there was none."""


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["skillopt-sleep-staging"] = SCHEMA
    schema_version: Literal[3] = VERSION
    created: datetime
    project: Path
    accepted: bool
    files: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedNight:
    """A night that was written down whole."""

    folder: Path
    created: datetime
    project: Path
    accepted: bool
    files: tuple[StagedFile, ...]

    @property
    def name(self) -> str:
        return self.folder.name

    def proposal(self, file: StagedFile) -> bytes:
        """The proposed document, as the night wrote it.

        Raises:
            RefusedChange: It is not what the night wrote.
        """
        path = self.folder / file.proposed_file
        if Path(file.proposed_file).name != file.proposed_file or path.is_symlink():
            raise RefusedChange(f"{self.folder}: {file.proposed_file!r} is no file of this night")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RefusedChange(f"{path} cannot be read: {error.strerror}") from None
        if digest(data) != file.sha256:
            raise RefusedChange(
                f"{path} was changed after the night; what passed the gate is gone. Edit the "
                "document itself after adopting, or run another night."
            )
        return data


def slug(project: Path) -> str:
    """How the folders of a project are called in the state folder."""
    short = hashlib.sha256(str(project).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', project.name)[:40] or 'root'}-{short}"


def private_folder(folder: Path) -> Path:
    """The same folder, made so that only the user can look into it.

    One of our own name is closed as well if it was open; a folder that the user chose is left.

    Raises:
        StoreError: It cannot be made.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif folder.name == OWN and stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
    except FileExistsError:
        raise StoreError(f"{folder} is no folder, and one is needed there; move it away") from None
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be made, or not closed to other users: {error.strerror}"
        ) from None
    return folder


def own_path(project: Path, *names: str) -> Path:
    """A place in `.skillopt-sleep` of a project, for our files, which git does not see.

    Raises:
        RefusedChange: A part of it is a link or a pipe, so that we would write elsewhere.
    """
    place = project
    for name in (OWN, *names):
        place /= name
        if place.is_symlink() or (place.exists() and not (place.is_dir() or place.is_file())):
            raise RefusedChange(
                f"{place} is a symbolic link or a pipe; our files are not written there"
            )
    return place


def check_staging(project: Path) -> None:
    """Refuse now what would keep a night from being written down in the end; writes nothing.

    Raises:
        RefusedChange: Something is in the way, or nothing may be written there.
    """
    ignored = own_path(project, ".gitignore")
    folders = [project, own_path(project), own_path(project, "staging")]
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise RefusedChange(
                f"{folder} is no folder, and nights are written below it; move it away"
            )
    if ignored.is_dir():
        raise RefusedChange(f"{ignored} is a folder, and a file is needed there; move it away")
    there = [folder for folder in folders if folder.is_dir()]
    if not os.access(there[-1], os.W_OK | os.X_OK):
        raise RefusedChange(f"nothing may be written in {there[-1]}; give yourself that right")


def stage(
    project: Path,
    files: Sequence[ProposedFile],
    documents: Mapping[str, bytes],
    *,
    accepted: bool,
    now: datetime,
    state: Path,
) -> Path:
    """Write a night down; its folder.

    Args:
        project: The project that the night was for.
        files: What it proposes. A document that did not change is not staged, and nothing is if
            the night was not accepted.
        documents: Further files of the night by name: report.md, report.json, ...
        accepted: Whether the proposals passed the gate.
        now: When the night ended.
        state: The state folder, which is to know this night.

    Raises:
        RefusedChange: Our folder is a link.
        StoreError: It cannot be written.
    """
    nights = own_path(project, "staging")
    keep_out_of_git(project)
    folder = _new_folder(nights, now)
    staged: list[StagedFile] = []
    names = {_MANIFEST, *documents}
    for file in files if accepted else ():
        if file.after == file.before:
            continue
        name = _free(_proposed_name(file), names)
        names.add(name)
        write_atomic(folder / name, file.after, mode=_PRIVATE)
        staged.append(
            StagedFile(
                target=file.target,
                proposed_file=name,
                path=file.path,
                root=file.root,
                sha256=digest(file.after),
                live_sha256=digest(file.before),
            )
        )
    for name, data in documents.items():
        write_atomic(folder / name, data, mode=_PRIVATE)
    manifest = _Manifest(
        created=now.astimezone(timezone.utc),
        project=project.resolve(),
        accepted=accepted,
        files=tuple(staged),
    )
    data = json_bytes(manifest.model_dump(mode="json"))
    make_known(folder, data, manifest.project, state)
    write_atomic(folder / _MANIFEST, data, mode=_PRIVATE)
    return folder


def make_known(folder: Path, manifest: bytes, project: Path, state: Path) -> None:
    """Write down that a night of this project was made by this user."""
    record = _known(private_folder(state), project, folder.name)
    write_atomic(record, f"{digest(manifest)}\n", mode=_PRIVATE)


def keep_out_of_git(project: Path) -> None:
    """Let git pass our folder over, whatever a clone has put there."""
    private_folder(own_path(project))
    write_atomic(own_path(project, ".gitignore"), "*\n")


def read_night(folder: Path) -> StagedNight:
    """A night from its folder.

    Raises:
        StoreError: There is none, or its manifest is damaged or of another version.
    """
    path = folder / _MANIFEST
    try:
        data = path.read_bytes()
        if (version := _version(data)) not in (None, VERSION):
            raise OldFormat(
                f"{path} was written by another version (format {version}, here {VERSION}); "
                "adopt it with that version, or run another night"
            )
        manifest = _Manifest.model_validate_json(data)
    except FileNotFoundError:
        raise StoreError(f"{folder} is no night: it has no {_MANIFEST}") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"{path} is damaged ({key}: {first['msg']}); remove the folder to do without this night"
        ) from None
    return StagedNight(
        folder, manifest.created, manifest.project, manifest.accepted, manifest.files
    )


def known_night(folder: Path, project: Path, state: Path) -> StagedNight:
    """A night of a project from its folder, if this user made it and nobody changed it since.

    Raises:
        RefusedChange: It is another's, of another project, or its manifest was changed.
        StoreError: There is none, or its manifest is damaged or of another version.
    """
    night = read_night(folder)
    if night.project != project:
        raise RefusedChange(f"{folder} is a night of {night.project}, not of {project} (--project)")
    try:
        known = _known(state, project, folder.resolve().name).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise RefusedChange(
            f"{folder} is not known in {state}: it was made by somebody else, or with another "
            "--state-dir, and may have come with a clone. It is not adopted; if you trust it, copy "
            "by hand what you want of it."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"what {state} knows of {folder} cannot be read: {error}") from None
    if digest((folder / _MANIFEST).read_bytes()) != known:
        raise RefusedChange(
            f"{folder / _MANIFEST} was changed after the night; remove the folder to do without it"
        )
    return night


def nights(project: Path, state: Path) -> tuple[list[StagedNight], list[SkilloptError]]:
    """All whole nights that this user made for a project, the newest first, and what is damaged.

    Those of other versions are left out.

    Raises:
        RefusedChange: Our folder is a link.
        StoreError: It cannot be read.
    """
    folder = own_path(project, "staging")
    if not folder.is_dir():
        return [], []
    try:
        made = [path for path in folder.iterdir() if (path / _MANIFEST).is_file()]
    except OSError as error:
        raise StoreError(
            f"{error.filename} cannot be read: {error.strerror}; give yourself the right to"
        ) from None
    found: list[StagedNight] = []
    problems: list[SkilloptError] = []
    for path in sorted(made, key=_order, reverse=True):
        if not _known(state, project, path.name).is_file() or not _is_ours(path / _MANIFEST):
            continue
        try:
            found.append(known_night(path, project, state))
        except (RefusedChange, StoreError) as error:
            problems.append(error)
    return found, problems


def digest(data: bytes | None) -> str:
    """The SHA-256 of a file; empty where there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def new_name(now: datetime, number: int = 0) -> str:
    stamp = now.astimezone(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{number}" if number else stamp


def _known(state: Path, project: Path, name: str) -> Path:
    return state / "staged" / slug(project) / name


def _version(data: bytes) -> object:
    try:
        found: object = json.loads(data)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return cast("dict[str, object]", found).get("schema_version")


def _is_ours(manifest: Path) -> bool:
    return _version(manifest.read_bytes()) in (None, VERSION)


def _order(path: Path) -> tuple[str, int]:
    named = _NIGHT.fullmatch(path.name)
    return (named[1], int(named[2] or 0)) if named else ("", 0)


def _new_folder(parent: Path, now: datetime) -> Path:
    try:
        private_folder(parent)
        for number in range(10_000):
            folder = parent / new_name(now, number)
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        raise StoreError(f"{parent} cannot be made: {error.strerror}") from None
    raise StoreError(f"{parent} has too many nights of one second")


def _proposed_name(file: ProposedFile) -> str:
    if file.target in PAIR:
        return f"proposed_{file.path.name}"
    return f"proposed_SKILL.{_PLAIN.sub('-', file.target)}.md"


def _free(name: str, taken: set[str]) -> str:
    stem, _, end = name.rpartition(".")
    folded = {other.casefold() for other in taken}
    names = (name, *(f"{stem}-{number}.{end}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each.casefold() not in folded)
