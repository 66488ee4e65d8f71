"""Split folders with a manifest: written for a split that we cut, or made from ids and items."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol, cast

from skillopt.core.intake import DATA_BYTES, MANIFEST_BYTES, read_file, read_json
from skillopt.core.task import Split
from skillopt.datasets.rows import SUFFIXES, Row, read_rows, rows_of
from skillopt.datasets.splits import SPLITS, Splits, from_directory
from skillopt.errors import DataError

MANIFEST: Final = "split_manifest.json"
"""What a split folder says about itself."""
_ID_SPLIT, _DONE = "id_split", "materialized_split"
_PARQUET: Final = ".parquet"
_FIELDS: Final = ("question", "context", "answers")


def write_manifest(out: Path, splits: Splits, *, source: str, ratio: str, seed: int) -> None:
    """Write `<split>/items.json` for each split, and last `split_manifest.json` about them.

    Raises `DataError` where that would replace a file that we did not write.
    """
    check_manifest_place(out, splits)
    for path, content in _items(out, splits).items():
        _write(path, content)
    manifest = {
        "source_data_path": source,
        "split_mode": "ratio",
        "split_ratio": ratio,
        "split_seed": seed,
        "counts": {split: len(splits[split]) for split in SPLITS},
    }
    _write(out / MANIFEST, _json(manifest))


def check_manifest_place(out: Path, splits: Splits) -> None:
    """Refuse a folder in which other files than ours would be replaced."""
    try:
        manifest = _read_manifest(out)
    except DataError:
        manifest = {}
    if {"split_mode", "split_ratio", "counts"} <= manifest.keys():
        return
    written = _items(out, splits)
    for path in (*written, out / MANIFEST):
        # The same content: of a start that was killed while it wrote them.
        if path.exists() and not _holds(path, written.get(path)):
            raise DataError(
                f"{path} is there already and was not written by skillopt; it was not changed. "
                "Choose another folder (env.split_output_dir)."
            )


def _items(out: Path, splits: Splits) -> dict[Path, bytes]:
    return {
        out / split / "items.json": _json([dict(row.data) for row in splits[split]])
        for split in SPLITS
    }


def _holds(path: Path, content: bytes | None) -> bool:
    try:
        return content is not None and read_file(path, len(content)) == content
    except OSError:  # larger than that, or no regular file
        return False


def _read_manifest(folder: Path) -> Mapping[str, object]:
    path = folder / MANIFEST
    try:
        manifest = read_json(read_file(path, MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return manifest if isinstance(manifest, dict) else {}


def _json(content: object) -> bytes:
    """JSON; a lone surrogate, which UTF-8 cannot hold, becomes its JSON escape."""
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    return text.encode(errors="backslashreplace")


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.skillopt-part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def holds_ids_only(folder: Path) -> bool:
    """Whether a split folder has no content: its manifest says so, or its rows are bare ids."""
    if _read_manifest(folder).get("manifest_type") == _ID_SPLIT:
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
    described = _read_manifest(manifest)
    ids = _ids(manifest, described.get("counts"))
    empty = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not empty and _read_manifest(out).get("manifest_type") != _DONE:
        raise DataError(f"{out}: holds something else; name a new folder")
    wanted = [name for names in ids.values() for name in names]
    items = _read_items(dataset, str(described.get("source_id_field") or "key"), set(wanted))
    missing = [name for name in wanted if name not in items]
    if missing:
        raise DataError(
            f"{dataset}: no item for {len(missing)} of {len(wanted)} ids of {manifest}: "
            f"{_first(missing)}; the data may be incomplete, or of another release"
        )
    for split, names in ids.items():
        _write(out / split / "items.json", _json([items[name] for name in names]))
    counts: dict[Split, int] = {split: len(names) for split, names in ids.items()}
    made = {
        "benchmark": described.get("benchmark", ""),
        "manifest_type": _DONE,
        **{key: value for key, value in described.items() if key.startswith("source_")},
        "source_data_path": str(dataset),
        "counts": counts,
        "item_fields": ["id", *_FIELDS],
    }
    _write(out / MANIFEST, _json(made))
    return counts


def _ids(manifest: Path, expected: object) -> dict[Split, list[str]]:
    splits = from_directory(manifest)
    ids: dict[Split, list[str]] = {split: list(map(_id, splits[split])) for split in SPLITS}
    first: dict[str, Split] = {}
    for split, names in ids.items():
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise DataError(f"{manifest}: given twice in {split}: {_first(twice)}")
        shared = [name for name in names if name in first]
        if shared:
            other = first[shared[0]]
            raise DataError(f"{manifest}: given in {other} and in {split}: {_first(shared)}")
        first |= dict.fromkeys(names, split)
    counts = {split: len(names) for split, names in ids.items()}
    if isinstance(expected, dict) and expected != counts:
        raise DataError(f"{manifest}: {MANIFEST} counts {expected}, its splits hold {counts}")
    return ids


def _id(row: Row) -> str:
    name = row.data.get("id")
    if not isinstance(name, str) or not name:
        raise DataError(f"{row.where}: expected an id, as text")
    return name


def _read_items(dataset: Path, column: str, wanted: set[str]) -> dict[str, dict[str, object]]:
    items: dict[str, dict[str, object]] = {}
    for row in _rows(dataset):
        name = row.data.get(column, row.data.get("id"))
        if not isinstance(name, str):
            raise DataError(f"{row.where}: no field {column!r} that holds the item's id as text")
        if name not in wanted:
            continue
        if name in items:
            raise DataError(f"{row.where}: the item {name!r} is given twice; remove one")
        lacks = [field for field in _FIELDS if field not in row.data]
        if lacks:
            raise DataError(f"{row.where}: the item {name!r} has no field {lacks[0]!r}")
        items[name] = {"id": name, **{field: row.data[field] for field in _FIELDS}}
    return items


def _rows(dataset: Path) -> Iterable[Row]:
    kinds = (*SUFFIXES, _PARQUET)
    files = [dataset]
    if dataset.is_dir():
        files = sorted(file for file in dataset.rglob("*") if file.suffix.lower() in kinds)
    elif not dataset.is_file():
        raise DataError(
            f"{dataset}: no such file or folder. Nothing is downloaded: fetch the data first (the "
            f"manifest's source_url says where) and name the file, or the folder it lies in"
        )
    if not files:
        raise DataError(f"{dataset}: no data file here ({', '.join(kinds)})")
    for file in files:
        yield from _read_parquet(file) if file.suffix.lower() == _PARQUET else read_rows(file)


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


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more
