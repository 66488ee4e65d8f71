"""The files that the owners of a benchmark publish: where they come from, and items from them."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final, Protocol, cast, runtime_checkable

from skillopt.core.intake import DATA_BYTES, read_file
from skillopt.datasets.rows import SUFFIXES, Row, read_rows, rows_of
from skillopt.errors import DataError

MANIFEST: Final = "split_manifest.json"
"""What a split folder says about itself."""
_PARQUET: Final = ".parquet"
_PACKED: Final = ".jsonl.gz"
_KINDS: Final = (*SUFFIXES, _PARQUET, _PACKED)


@dataclass(frozen=True, slots=True)
class RawItem:
    """One item of the published data, as an environment takes it."""

    row: Row
    """With its `id`; paths in it are relative to the folder of the data."""
    files: tuple[str, ...] = ()
    """The paths in it: files that belong to the item."""
    embedded: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that are not in that folder, because a table holds them; by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A place where a part of the data is published."""

    what: str
    url: str
    licence: str
    revision: str = ""
    """The version that the other facts are about; empty: none is fixed."""
    access: str = "open"
    """Who may fetch it: open, gated, by registration."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files in it with their SHA-256; empty: not known. `*` stands for any name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkData:
    """What an environment needs from outside."""

    title: str
    sources: tuple[DataSource, ...]
    items: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many items there are in the release, or in each part of it."""
    extra: str = ""
    """The extra of this package that it needs."""
    programs: tuple[str, ...] = ()
    """Programs that it needs."""
    notes: tuple[str, ...] = ()


@runtime_checkable
class ReadsRaw(Protocol):
    """Optional for the class of an environment: it reads what the owners publish."""

    @staticmethod
    def read_raw(source: Path) -> Iterable[RawItem]:
        """The items of a file or folder, all of them, with unique ids."""
        ...


@runtime_checkable
class NeedsData(Protocol):
    """Optional for the class of an environment: it says what data it needs."""

    data: ClassVar[BenchmarkData]


@dataclass(frozen=True, slots=True)
class RawRow:
    row: Row
    embedded: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Bytes that a table holds, by column (`image`, `images[1]`)."""


def raw_folder(source: Path) -> Path:
    """The folder that paths in the data are relative to."""
    return source if source.is_dir() else source.parent


def raw_files(source: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """The data files at a place, sorted; with patterns, those whose names match one."""
    if source.is_dir():
        files = sorted(
            file
            for file in source.rglob("*")
            if file.is_file()
            and file.name.lower().endswith(_KINDS)
            and file.name != MANIFEST
            and not file.name.startswith((".", "~$"))
        )
        chosen = [file for file in files if any(fnmatch(file.name, each) for each in patterns)]
        found = chosen if patterns else files
        if not found:
            wanted = ", ".join(patterns or _KINDS)
            raise DataError(f"{source}: no data file here ({wanted})")
        return found
    if not source.is_file():
        raise DataError(
            f"{source}: no such file or folder. Nothing is downloaded: fetch the data first "
            "(`skillopt data NAME` says where from) and name the file, or the folder it lies in"
        )
    return [source]


def raw_rows(source: Path, patterns: Sequence[str] = ()) -> Iterator[RawRow]:
    """The rows of the data files at a place."""
    for file in raw_files(source, patterns):
        yield from read_table(file)


def read_table(file: Path) -> list[RawRow]:
    """The rows of one file: what `read_rows` reads, Parquet, and JSON lines packed by gzip."""
    if file.suffix.lower() == _PARQUET:
        return _read_parquet(file)
    if file.name.lower().endswith(_PACKED):
        return [RawRow(row) for row in _unpacked(file)]
    return [RawRow(row) for row in read_rows(file)]


def _content(file: Path) -> bytes:
    try:
        return read_file(file, DATA_BYTES)
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error


def _unpacked(file: Path) -> list[Row]:
    try:
        with gzip.open(BytesIO(_content(file))) as packed:
            content = packed.read(DATA_BYTES + 1)
        if len(content) > DATA_BYTES:
            raise DataError(f"{file}: unpacked it is larger than what is read; split it")
        lines = [json.loads(line) for line in content.decode().split("\n") if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{file}: not readable as JSON lines packed by gzip ({error})") from error
    return rows_of(lines, str(file))


class _Table(Protocol):
    def to_pylist(self) -> list[dict[str, object]]: ...


class _Parquet(Protocol):
    def read_table(self, source: BytesIO) -> _Table: ...


def _read_parquet(file: Path) -> list[RawRow]:
    try:
        parquet = cast("_Parquet", importlib.import_module("pyarrow.parquet"))
    except ImportError:
        raise DataError(
            f"{file}: reading Parquet takes pyarrow (pip install pyarrow); JSON, JSONL and CSV "
            "take nothing"
        ) from None
    content = _content(file)
    try:
        rows = parquet.read_table(BytesIO(content)).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise DataError(f"{file}: not readable as Parquet ({error})") from error
    embedded: list[dict[str, bytes]] = [{} for _ in rows]
    plain = [
        {key: _taken(value, key, found) for key, value in row.items()}
        for row, found in zip(rows, embedded, strict=True)
    ]
    return [RawRow(*each) for each in zip(rows_of(plain, str(file)), embedded, strict=True)]


def _taken(value: object, name: str, found: dict[str, bytes]) -> object:
    """A value without its bytes, which are put into `found`; an image becomes its path."""
    match value:
        case bytes():
            found[name] = value
            return ""
        case {"bytes": bytes() as content, "path": str() | None as path}:
            found[name] = content
            return path or ""
        case list():
            items = cast("list[object]", value)
            return [_taken(item, f"{name}[{n}]", found) for n, item in enumerate(items)]
        case dict():
            fields = cast("dict[str, object]", value)
            return {key: _taken(item, f"{name}.{key}", found) for key, item in fields.items()}
        case _:
            return value


def find_file(folder: Path, name: str, where: str, below: Sequence[str] = ()) -> str:
    """The path of a file that an item names, relative to the folder of the data.

    It is looked for as named, and by its bare name in the folders `below`.
    """
    bare = PurePosixPath(name.replace("\\", "/")).name
    places = [name, *(f"{each}/{bare}" for each in below), bare]
    for place in places:
        inside = not PurePosixPath(place).is_absolute() and ".." not in PurePosixPath(place).parts
        # Unlike `Path.is_file`, it bears names that are too long.
        if inside and place and os.path.isfile(folder / place):  # noqa: PTH113
            return place
    raise DataError(f"{where}: no file {name!r} in {folder}; fetch it, or check the folder")


def plain_file(folder: Path, name: str) -> Path:
    """A file below a folder, with its links followed; a `ValueError` if they lead out of it.

    A snapshot of the hub's cache consists of links into the folder `blobs` of the same cache.
    """
    top = folder.resolve()
    blobs = [each.parent / "blobs" for each in (top, *top.parents) if each.name == "snapshots"]
    file = Path(os.path.realpath(folder / name))  # unlike `resolve`, it bears links in a circle
    if not any(file.is_relative_to(each) for each in (top, *blobs)):
        raise ValueError(f"{name!r} leads out of {folder}, to {file}")
    return file


def sha256_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
