"""Rows of a dataset, from JSON, JSONL, CSV or memory. Every row knows where it came from."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from skillopt.errors import DataError

SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv")


@dataclass(frozen=True, slots=True)
class Row:
    """One item as it stands in its source. Values are JSON values."""

    data: Mapping[str, object]
    where: str
    """Its place, as a reader of an error message would look it up."""


def read_rows(path: Path) -> list[Row]:
    """Read a file, or the only data file of a folder.

    A .json file holds an array of objects, `{"data": [...]}` or an object of objects, whose keys
    become ids where a row has none; a .jsonl or .ndjson file an object a line; a .csv file a
    header and text cells.
    """
    file = _only_file(path) if path.is_dir() else path
    read = {
        ".json": _from_json,
        ".jsonl": _from_lines,
        ".ndjson": _from_lines,
        ".csv": _from_csv,
    }.get(file.suffix.lower())
    if read is None:
        raise DataError(f"{file}: unknown kind of data file; use one of {', '.join(SUFFIXES)}")
    return read(_text(file), str(file))


def rows_of(items: Sequence[Mapping[str, object]], name: str) -> list[Row]:
    """Rows from memory, copied; `name` is what their places start with."""
    return [
        _row(dict(item) if isinstance(item, Mapping) else item, f"{name}[{index}]")  # pyright: ignore[reportUnnecessaryIsInstance]
        for index, item in enumerate(items)
    ]


def shape(value: object) -> str:
    """What a JSON value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text" if value.strip() else "empty text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _only_file(folder: Path) -> Path:
    files = sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
    )
    if len(files) == 1:
        return files[0]
    kinds = ", ".join(SUFFIXES)
    if not files:
        raise DataError(f"{folder}: no data file here; put one file in it ({kinds})")
    names = ", ".join(file.name for file in files)
    raise DataError(f"{folder}: {len(files)} data files ({names}); keep one, or name the file")


def _text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); check the path") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{file}:{line}: not UTF-8; save the file as UTF-8") from error


def _from_json(text: str, name: str) -> list[Row]:
    try:
        document = _parse(text, name)
    except DataError as error:
        # JSONL under the name .json is common; its second line is what a JSON reader trips over.
        if text.lstrip().startswith("{") and "Extra data" in str(error):
            return _from_lines(text, name)
        raise
    if isinstance(document, dict):
        fields = cast("dict[str, object]", document)
        if not isinstance(fields.get("data"), list):
            return _keyed(fields, name)
        document = fields["data"]
    if isinstance(document, list):
        return _array(cast("list[object]", document), name)
    raise DataError(
        f"{name}: expected an array of objects, found {shape(document)}; "
        'write [{...}, ...] or {"data": [{...}, ...]}'
    )


def _array(items: Iterable[object], name: str) -> list[Row]:
    return [_row(item, f"{name}[{index}]") for index, item in enumerate(items)]


def _keyed(items: Mapping[str, object], name: str) -> list[Row]:
    rows: list[Row] = []
    for key, item in items.items():
        row = _row(item, f"{name}[{key!r}]")
        rows.append(Row({"id": key, **row.data}, row.where))
    return rows


def _from_lines(text: str, name: str) -> list[Row]:
    # Not `splitlines`: U+2028 and its kin may stand unescaped inside a JSON string.
    return [
        _row(_parse(line, f"{name}:{number}", lines=False), f"{name}:{number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]


def _from_csv(text: str, name: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    try:
        header = _header(next(reader, list[str]()), name)
        start = reader.line_num + 1
        for cells in reader:
            where, start = f"{name}:{start}", reader.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{where}: {len(cells)} cells under {len(header)} columns; "
                    "quote cells that hold commas or line breaks"
                )
            rows.append(_row(dict(zip(header, cells, strict=True)), where))
    except csv.Error as error:
        raise DataError(
            f"{name}:{reader.line_num}: not readable as CSV ({error}); fix its quotes, or use JSONL"
        ) from error
    return rows


def _header(cells: Sequence[str], name: str) -> list[str]:
    header = [cell.strip() for cell in cells]
    if not any(header):
        raise DataError(f"{name}:1: no header; the first line of a CSV file names its columns")
    for column in header:
        if not column:
            raise DataError(f"{name}:1: a column has no name; name every column")
        if header.count(column) > 1:
            raise DataError(f"{name}:1: two columns are named {column!r}; rename one")
    return header


def _parse(text: str, where: str, *, lines: bool = True) -> object:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}" if lines else where
        raise DataError(f"{place}: not valid JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not usable as JSON ({error})") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"the key {twice!r} stands twice in one object"
        raise ValueError(message)
    return found


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is not a JSON value; use null or leave the field out"
    raise ValueError(message)


def _row(item: object, where: str) -> Row:
    if not isinstance(item, dict):
        raise DataError(
            f"{where}: expected an object with named fields, found {shape(item)}; "
            'write {"input": ..., "answer": ...}'
        )
    try:
        text = json.dumps(item, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: holds half a surrogate pair, which is not text") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}); use text, numbers, lists, dicts") from error
    return Row(cast("dict[str, object]", json.loads(text)), where)
