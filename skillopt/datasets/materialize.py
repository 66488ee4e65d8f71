"""Creates a split folder from a manifest of ids and a file with the items."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol, cast

from skillopt.core.intake import DATA_BYTES, MANIFEST_BYTES, read_file, read_json
from skillopt.core.task import Split
from skillopt.datasets.manifests import MANIFEST, write_json
from skillopt.datasets.rows import SUFFIXES, Row, read_rows, rows_of
from skillopt.datasets.splits import SPLITS, from_directory
from skillopt.errors import DataError

ID_SPLIT: Final = "id_split"
_DONE: Final = "materialized_split"
_PARQUET: Final = ".parquet"
_FIELDS: Final = ("question", "context", "answers")


def holds_ids_only(folder: Path) -> bool:
    """Whether a split folder has no content: its manifest says so, or its rows are bare ids."""
    if _read_manifest(folder).get("manifest_type") == ID_SPLIT:
        return True
    try:
        rows = from_directory(folder, ()).train
    except DataError:
        return False
    return bool(rows) and all(row.data.keys() <= {"id"} for row in rows)


def materialize(manifest: Path, out: Path, dataset: Path) -> dict[Split, int]:
    """Write the items that a manifest names into `out`; how many there are of each split.

    Args:
        manifest: A folder with `train/`, `val/` and `test/` of `{"id": ...}` rows.
        out: A new folder, or one that this function has written before.
        dataset: A JSON, JSONL, CSV or Parquet file with the items, or a folder of such files.

    Raises:
        DataError: Naming ids that are given twice, belong to two splits, or have no item.
    """
    told = _read_manifest(manifest)
    ids = _ids(manifest, told)
    _refuse_foreign(out)
    column = str(told.get("source_id_field") or "key")
    wanted = {name for some in ids.values() for name in some}
    items = _items(dataset, column, wanted)
    missing = [name for some in ids.values() for name in some if name not in items]
    if missing:
        raise DataError(
            f"{dataset}: no item for {len(missing)} of {len(wanted)} ids of {manifest}: "
            f"{_some(missing)}; the data may be incomplete, or of another release"
        )
    for split in SPLITS:
        write_json(out / split / "items.json", [items[name] for name in ids[split]])
    counts: dict[Split, int] = {split: len(ids[split]) for split in SPLITS}
    sources = {key: value for key, value in told.items() if key.startswith("source_")}
    write_json(
        out / MANIFEST,
        {
            "benchmark": told.get("benchmark", ""),
            "manifest_type": _DONE,
            **sources,
            "source_data_path": str(dataset),
            "counts": counts,
            "item_fields": ["id", *_FIELDS],
        },
    )
    return counts


def _read_manifest(folder: Path) -> Mapping[str, object]:
    path = folder / MANIFEST
    try:
        found = read_json(read_file(path, MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return found if isinstance(found, dict) else {}


def _ids(manifest: Path, told: Mapping[str, object]) -> dict[Split, list[str]]:
    splits = from_directory(manifest)
    ids: dict[Split, list[str]] = {split: list(map(_id, splits[split])) for split in SPLITS}
    first: dict[str, Split] = {}
    for split, names in ids.items():
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"{manifest}: given twice in {split}: {_some(twice)}")
        shared = [name for name in names if name in first]
        if shared:
            other = first[shared[0]]
            raise DataError(f"{manifest}: given in {other} and in {split}: {_some(shared)}")
        first |= dict.fromkeys(names, split)
    expected = told.get("counts")
    found = {split: len(names) for split, names in ids.items()}
    if isinstance(expected, dict) and expected != found:
        raise DataError(f"{manifest}: {MANIFEST} counts {expected}, its splits hold {found}")
    return ids


def _id(row: Row) -> str:
    name = row.data.get("id")
    if not isinstance(name, str) or not name:
        raise DataError(f"{row.where}: expected an id, as text")
    return name


def _refuse_foreign(out: Path) -> None:
    known = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not known and _read_manifest(out).get("manifest_type") != _DONE:
        raise DataError(f"{out}: holds something else; name a new folder")


def _items(dataset: Path, column: str, wanted: set[str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for row in _payload(dataset):
        name = row.data.get(column, row.data.get("id"))
        if not isinstance(name, str):
            raise DataError(f"{row.where}: no field {column!r} that holds the item's id as text")
        if name not in wanted:
            continue
        if name in found:
            raise DataError(f"{row.where}: the item {name!r} is given twice; remove one")
        lacks = [field for field in _FIELDS if field not in row.data]
        if lacks:
            raise DataError(f"{row.where}: the item {name!r} has no field {lacks[0]!r}")
        found[name] = {"id": name, **{field: row.data[field] for field in _FIELDS}}
    return found


def _payload(dataset: Path) -> Iterable[Row]:
    for file in _files(dataset):
        yield from _read_parquet(file) if file.suffix.lower() == _PARQUET else read_rows(file)


def _files(dataset: Path) -> Sequence[Path]:
    if dataset.is_file():
        return [dataset]
    if not dataset.is_dir():
        raise DataError(
            f"{dataset}: no such file or folder. Nothing is downloaded: fetch the data first (the "
            f"manifest's source_url says where) and name the file, or the folder it lies in"
        )
    kinds = (*SUFFIXES, _PARQUET)
    files = sorted(each for each in dataset.rglob("*") if each.suffix.lower() in kinds)
    if not files:
        raise DataError(f"{dataset}: no data file here ({', '.join(kinds)})")
    return files


class _Table(Protocol):
    def to_pylist(self) -> list[dict[str, object]]: ...


class _Parquet(Protocol):
    def read_table(self, source: BytesIO) -> _Table: ...


def _read_parquet(file: Path) -> list[Row]:
    try:
        parquet = cast("_Parquet", importlib.import_module("pyarrow.parquet"))
    except ImportError:
        raise DataError(
            f"{file}: reading Parquet takes pyarrow (pip install pyarrow); JSON, JSONL and CSV "
            "take nothing"
        ) from None
    try:
        data = read_file(file, DATA_BYTES)
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        rows = parquet.read_table(BytesIO(data)).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise DataError(f"{file}: not readable as Parquet ({error})") from error
    return rows_of(rows, str(file))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more
