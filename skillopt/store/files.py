"""Writes files completely or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, TypeAlias

from skillopt.errors import StoreError

Json: TypeAlias = dict[str, object]

_PART = ".skillopt-part"
"""How a file is called while it is being written; no other program ends a name like this."""


def part_of(path: Path, process: int) -> Path:
    """What a process that was killed may have left of a file that it was writing."""
    return path.with_name(f".{path.name}.{process}{_PART}")


def write_atomic(
    path: Path, data: bytes | str, *, durable: bool = True, mode: int | None = None
) -> None:
    """Replace a file in one go; text is UTF-8. Durable: it outlives a power cut as well.

    The new file has the rights of any new file, or those of `mode`.
    """
    payload = data.encode() if isinstance(data, str) else data
    part = part_of(path, os.getpid())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with _new(part) as file:
                if mode is not None:
                    part.chmod(mode)
                file.write(payload)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error


def _new(part: Path) -> BinaryIO:
    """Open a new file. What has its name, a planted link for instance, is removed first."""
    try:
        return part.open("xb")
    except FileExistsError:
        part.unlink()
        return part.open("xb")


class BackgroundWriter:
    """Writes files in a thread of its own; leaving the block waits until all of them are there.

    For many small files that can be made again: a slow disk then holds up nobody.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Path, bytes] | None] = SimpleQueue()
        self._error: StoreError | None = None
        self._thread = Thread(target=self._work, name="file writer", daemon=True)

    def __enter__(self) -> BackgroundWriter:
        self._thread.start()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        """Finish; the first error is raised now, unless the block has failed with another."""
        self._jobs.put(None)
        self._thread.join()
        if self._error is not None and failed is None:
            raise self._error

    def write(self, path: Path, data: bytes) -> None:
        self._jobs.put((path, data))

    def _work(self) -> None:
        while job := self._jobs.get():
            self._one(*job)

    def _one(self, path: Path, data: bytes) -> None:
        try:
            write_atomic(path, data, durable=False)
        except StoreError as error:
            self._error = self._error or error


def write_json(path: Path, value: object, *, durable: bool = True) -> None:
    """Replace a JSON file in one go."""
    write_atomic(path, json_bytes(value), durable=durable)


def json_bytes(value: object) -> bytes:
    """A JSON document for people to read: indented, keys in the given order, a newline at the end.

    A lone surrogate, which UTF-8 cannot hold, becomes its JSON escape.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    return text.encode(errors="backslashreplace")


def list_item(document: bytes) -> bytes:
    """What `json_bytes` has made, as it stands in a list."""
    return b"  " + document[:-1].replace(b"\n", b"\n  ")


def json_list(items: Iterable[bytes]) -> bytes:
    """A list of such items: what `json_bytes` would make of it, without making each anew."""
    text = b",\n".join(items)
    return b"[\n" + text + b"\n]\n" if text else b"[]\n"


def given(**fields: object) -> Json:
    """Those of the fields that hold something."""
    return {name: value for name, value in fields.items() if value}


def json_row(value: object) -> bytes:
    """One line of a JSONL file, with its newline."""
    return (json.dumps(value, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def sweep(folder: Path) -> None:
    """Remove what writers left that were killed half-way. Only for the one writer of a folder."""
    for place, _, names in os.walk(folder):  # does not follow links out of the folder
        for name in names:
            if name.startswith(".") and name.endswith(_PART):
                (Path(place) / name).unlink(missing_ok=True)


def write_new(files: Mapping[Path, bytes]) -> None:
    """Write files beside others; one that is there with other content is refused, before any."""
    for path, data in files.items():
        if (path.exists() or path.is_symlink()) and not _holds(path, data):
            raise StoreError(
                f"{path} is there already with other content; it was not changed. "
                "Choose another folder, or move the file away."
            )
    for path, data in files.items():
        write_atomic(path, data)


def read_tree(folder: Path, to: Path) -> dict[Path, bytes]:
    """All files below a folder, each under the path that it would have below another."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {to / path.relative_to(folder): path.read_bytes() for path in files}


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems refuse to sync a folder; the file itself is safe by then.
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: OSError) -> StoreError:
    """The error to raise when a file of a run cannot be written."""
    reason = error.strerror or str(error)
    return StoreError(
        f"cannot write {path}: {reason}. Finished work is kept: "
        "make room or fix the permissions, then run the same command again."
    )
