"""Rows of a dataset, from files or memory, each with its source."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from threading import Lock
from typing import NoReturn, cast
from zipfile import BadZipFile, ZipFile

from skillopt.core.extras import install_command
from skillopt.core.intake import DATA_BYTES, NESTING, ROW_BYTES, Json, read_file, size, too_deep
from skillopt.core.paths import similar_path
from skillopt.errors import DataError

_CELLS = 10_000_000
"""Cells of a spreadsheet, empty ones included."""
_DIGITS = 4_000
"""Of a whole number; Python reads few more."""
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".xlsx")


@dataclass(frozen=True, slots=True)
class Row:
    """One item as it stands in its source. Values are JSON values."""

    data: Mapping[str, object]
    where: str
    """Its place, as a reader of an error message would look it up."""


class NoObject(DataError):
    """An item that is no object, as rows are."""

    def __init__(self, told: str) -> None:
        self.told = told
        super().__init__(f'{told}; write {{"input": ..., "answer": ...}}')


def read_rows(path: Path) -> list[Row]:
    """Read a file, or the only data file of a folder.

    A .json file holds an array of objects, `{"data": [...]}` or an object of objects, whose keys
    become ids where a row has none; a .jsonl or .ndjson file an object a line; a .csv or .tsv file
    a header and text cells between commas, semicolons, tabs or pipes; an .xlsx file the same
    in its only sheet.
    """
    file = _only_file(path) if path.is_dir() else path
    if file.suffix.lower() == ".xlsx":
        return _from_workbook(file)
    read: Callable[[str, str], list[Row]] | None = {
        ".json": _from_json,
        ".jsonl": _from_lines,
        ".ndjson": _from_lines,
        ".csv": _from_csv,
        ".tsv": _from_csv,
    }.get(file.suffix.lower())
    if read is None:
        near = similar_path(file)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(SUFFIXES)}"
        raise DataError(f"{file}: unknown kind of data file; {hint}")
    return read(_text(file), str(file))


def rows_of(items: Sequence[Mapping[str, object]], name: str) -> list[Row]:
    """Rows from memory, copied; `name` is what their places start with."""
    return [
        _row(dict(item) if isinstance(item, Mapping) else item, f"{name}[{index}]")  # pyright: ignore[reportUnnecessaryIsInstance]
        for index, item in enumerate(items)
    ]


def shape(value: object) -> str:
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
            return "a list" if value else "an empty list"
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
        content = read_file(file, DATA_BYTES)
    except OSError as error:
        raise _unreadable(file, error) from error
    try:
        return content.decode(_encoding(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        around = content[max(0, error.start - 15) : error.start + 15].decode("cp1252", "replace")
        raise DataError(
            f"{file}:{line}: not UTF-8; save the file as UTF-8. If it is Windows-1252 "
            f"({around.strip()!r} reads right): iconv -f WINDOWS-1252 -t UTF-8 {file}"
        ) from error


def _encoding(content: bytes) -> str:
    """UTF-8, with or without a mark at the start; UTF-16 only with its mark."""
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if marked else "utf-8-sig"


def _unreadable(file: Path, error: OSError) -> DataError:
    near = similar_path(file)
    hint = f"did you mean {near}?" if near else "check the path"
    return DataError(f"{file}: cannot be read ({error.strerror}); {hint}")


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


_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
_MARKED = re.compile(r"sep=([,;\t|])\r?\n")
"""A line in which spreadsheet programs say what the delimiter is; the header follows."""


def _from_csv(text: str, name: str) -> list[Row]:
    """By the delimiter that the header shows; if several could be meant, the first that fits."""
    if marked := _MARKED.match(text):
        return _between(marked[1], text, name, skip=1)
    columns = {sign: _columns(sign, text) for sign in _DELIMITERS}
    meant = [sign for sign, count in columns.items() if count > 1]
    for delimiter in meant:
        with suppress(DataError):
            return _between(delimiter, text, name)
    return _between(max(meant, key=columns.__getitem__, default=","), text, name)


_FIELDS = Lock()


@contextmanager
def _long_fields() -> Generator[None, None, None]:
    """A cell may be as long as a row. The limit is that of the whole process: it is put back."""
    with _FIELDS:
        before = csv.field_size_limit(ROW_BYTES)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _columns(delimiter: str, text: str) -> int:
    """Cells in the header, if this is the delimiter."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    with _long_fields(), suppress(csv.Error):
        return len(next(reader, ()))
    return 0


def _between(delimiter: str, text: str, name: str, skip: int = 0) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    def numbered() -> Iterator[tuple[int, Sequence[object]]]:
        start = 1
        for cells in reader:
            if start > skip:
                yield start, cells
            start = reader.line_num + 1

    try:
        with _long_fields():
            return _table(numbered(), name, f"quote cells that hold {_DELIMITERS[delimiter]}")
    except csv.Error as error:
        raise DataError(
            f"{name}:{reader.line_num}: not readable as CSV ({error}); fix its quotes, or use JSONL"
        ) from error


def _table(lines: Iterator[tuple[int, Sequence[object]]], name: str, hint: str) -> list[Row]:
    """A header, and below it rows with as many cells; each line with its number."""
    line, first = next(lines, (1, ()))
    header = _header([str(cell) for cell in first], f"{name}:{line}")
    rows: list[Row] = []
    for number, cells in lines:
        if not cells:
            continue
        if len(cells) != len(header):
            raise DataError(
                f"{name}:{number}: {len(cells)} cells under {len(header)} columns; "
                f"{hint} or line breaks"
            )
        rows.append(_row(dict(zip(header, cells, strict=True)), f"{name}:{number}"))
    return rows


def _packed(file: Path) -> io.BytesIO:
    """A spreadsheet, which is an archive, unless it would unpack to more than is read."""
    try:
        content = io.BytesIO(read_file(file, DATA_BYTES))
    except OSError as error:
        raise _unreadable(file, error) from error
    with suppress(BadZipFile), ZipFile(content) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > DATA_BYTES:
            raise DataError(
                f"{file}: unpacked it has {size(unpacked)}; at most {size(DATA_BYTES)} are read"
            )
    return content


def _from_workbook(file: Path) -> list[Row]:
    content = _packed(file)
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise DataError(
            f"{file}: spreadsheets need a package ({install_command('xlsx')}); or save it as CSV"
        ) from error
    try:
        book = load_workbook(content, read_only=True, data_only=True)
    except (InvalidFileException, BadZipFile, KeyError, ValueError) as error:
        raise DataError(f"{file}: not an .xlsx file ({error}); save it again, or as CSV") from error
    cells = 0
    sheets: dict[str, list[list[object]]] = {}
    for sheet in book.worksheets:
        lines = sheets.setdefault(str(sheet.title), [])
        for line in sheet.iter_rows(values_only=True):
            cells += len(line)
            if cells > _CELLS:
                raise DataError(
                    f"{file}:{len(lines) + 1}: more than {_CELLS:,} cells, most of them perhaps "
                    "empty; delete the empty rows and columns, or save it as CSV"
                )
            lines.append(list(map(_cell, line)))
    book.close()
    filled = {title: lines for title, lines in sheets.items() if any(map(any, lines))}
    if len(filled) > 1:
        raise DataError(f"{file}: {len(filled)} sheets ({', '.join(filled)}); keep one")
    lines = next(iter(filled.values()), list[list[object]]())
    width = max((k + 1 for line in lines for k, cell in enumerate(line) if cell != ""), default=0)
    numbered = ((n, line[:width] if any(line) else []) for n, line in enumerate(lines, start=1))
    return _table(numbered, str(file), "fill in")


def _cell(value: object) -> object:
    """A cell as a JSON value: dates as ISO text, an empty one as empty text."""
    match value:
        case None:
            return ""
        case date() | time():
            return value.isoformat()
        case bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _header(cells: Sequence[str], where: str) -> list[str]:
    header = [cell.strip() for cell in cells]
    if not any(header):
        raise DataError(f"{where}: no header; the first line of a CSV file names its columns")
    for column in header:
        if not column:
            raise DataError(f"{where}: a column has no name; name every column")
        if header.count(column) > 1:
            raise DataError(f"{where}: two columns are named {column!r}; rename one")
    return header


def _parse(text: str, where: str, *, lines: bool = True) -> object:
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}" if lines else where
        raise DataError(f"{place}: not valid JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not usable as JSON ({error})") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"the key {twice!r} stands twice in one object"
        raise ValueError(message)
    return fields


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        message = f"a number has {len(digits):,} digits; write it as text, in quotes"
        raise ValueError(message)
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is not a JSON value; use null or leave the field out"
    raise ValueError(message)


def _row(item: object, where: str) -> Row:
    if not isinstance(item, dict):
        raise NoObject(f"{where}: expected an object with named fields, found {shape(item)}")
    try:
        text = json.dumps(item, allow_nan=False, ensure_ascii=False)
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: holds half a surrogate pair, which is not text") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}); use text, numbers, lists, dicts") from error
    if length > ROW_BYTES:
        raise DataError(f"{where}: the row has {size(length)}; at most {size(ROW_BYTES)} are read")
    if text.count("[") + text.count("{") > NESTING and too_deep(cast("Json", item)):
        raise DataError(f"{where}: lists or objects are nested more than {NESTING} levels deep")
    return Row(cast("dict[str, object]", json.loads(text)), where)
