"""Compares cells of two workbooks, as SpreadsheetBench does."""

from __future__ import annotations

import base64
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, time
from io import BytesIO
from threading import Lock
from typing import Final, Protocol, cast
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from skillopt.core.intake import MIB, size
from skillopt.envs.processes import ask_process

_UNPACKED: Final = 256 * MIB
"""A workbook is an archive; this is the most that it may unpack to."""
_CONTENTS: Final = "xl/workbook.xml"
_MOST_CONTENTS: Final = 8 * MIB
_MOST_CELLS: Final = 2_000_000
"""Cells that are compared."""
_MOST_READ: Final = 1_000_000
"""Cells of a workbook (about 0.6 GB); ranges that are merged or linked are counted by their area,
for all of their cells are made."""
_MOST_ELEMENTS: Final = 4 * _MOST_READ
_OTHER: Final = 8
"""As how many elements one counts that is not part of the cells: styles and charts become larger
objects."""
_CELL_PARTS: Final = {"row", "c", "v", "f", "is", "si", "t", "r"}
_LAST_ROW, _LAST_COLUMN = 1_048_576, 16_384
_AREA: Final = re.compile(r"([A-Z]{0,3})(\d{0,7})(?::([A-Z]{0,3})(\d{0,7}))?")
_PART: Final = re.compile(r"(?:[^',]|'[^']*')+")
_DAY_ZERO: Final = datetime(1899, 12, 30)  # noqa: DTZ001 - dates of workbooks have no time zone


_ONE_AT_A_TIME: Final = Lock()


class Cell(Protocol):
    @property
    def value(self) -> object: ...


class Sheet(Protocol):
    @property
    def title(self) -> str: ...

    @property
    def max_row(self) -> int: ...

    @property
    def max_column(self) -> int: ...

    def cell(self, row: int, column: int) -> Cell: ...

    def __getitem__(self, name: str) -> Cell: ...

    def iter_rows(
        self, *, max_row: int | None = None, max_col: int | None = None, values_only: bool = False
    ) -> Iterator[Sequence[object]]: ...


class Workbook(Protocol):
    @property
    def sheetnames(self) -> list[str]: ...

    @property
    def worksheets(self) -> list[Sheet]: ...

    def __getitem__(self, name: str) -> Sheet: ...


class BadWorkbook(Exception):
    """A file that is no workbook, or one that is too large to be read."""


class TooLarge(BadWorkbook):
    """A workbook that would take too much memory."""


class _Scan:
    """Counts what a workbook holds without keeping any of it, and ends where that is too much.

    It spares most of the waiting for what is clearly too large; `check_readable` is what protects.
    """

    def __init__(self) -> None:
        self.formulas = False
        self._cells = self._elements = 0

    def read_all(self, archive: ZipFile) -> None:
        if sum(member.file_size for member in archive.infolist()) > _UNPACKED:
            raise TooLarge(f"it unpacks to more than {size(_UNPACKED)}")
        for member in archive.infolist():
            self._read(archive.read(member))

    def _read(self, part: bytes) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        with suppress(expat.ExpatError):  # a picture; or whoever reads the part will say so
            parser.Parse(part, True)  # noqa: FBT003 - the end of it

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        local = local if "spreadsheetml" in space else ""  # charts have elements of such names, too
        self._elements += 1 if local in _CELL_PARTS else _OTHER
        match local:
            case "c" | "row":
                self._cells += 1
            case "f":
                self.formulas = True
            case "mergeCell" | "hyperlink":
                self._cells += _area(attributes.get("ref", ""))
            case _:
                pass
        if self._cells > _MOST_READ:
            raise TooLarge(f"it has more than {_MOST_READ:,} cells")
        if self._elements > _MOST_ELEMENTS:
            raise TooLarge("it has too many styles, strings or drawings")


def _area(ref: str) -> int:
    """How many cells a range has; 0 for what is none."""
    try:
        area = _range(ref, "")
    except ValueError:
        return _MOST_READ + 1 if ":" in ref else 0
    right, bottom = area.right or _LAST_COLUMN, area.bottom or _LAST_ROW
    return (right - area.left + 1) * (bottom - area.top + 1)


def _scanned(content: bytes) -> _Scan:
    """A look at a workbook before it is read; `BadWorkbook` if it is none, or too large for that.

    What openpyxl makes of a small file can be as large as a sheet may be: cells that are merged or
    linked as one range all become objects.
    """
    scan = _Scan()
    try:
        with ZipFile(BytesIO(content)) as archive:
            scan.read_all(archive)
    except BadWorkbook:
        raise
    except Exception as error:  # what zipfile, the unpackers and the decoders of XML raise
        raise BadWorkbook("it is no .xlsx file") from error
    return scan


def has_formulas(content: bytes) -> bool:
    """Whether a workbook has formulas, computed or not."""
    return _scanned(content).formulas


def read_workbook(content: bytes, *, values: bool = True) -> Workbook:
    """A workbook; with `values`, what its formulas came to when a program last computed them."""
    from openpyxl import load_workbook

    _scanned(content)
    try:
        # What openpyxl warns of, parts that it does not know, has nothing to do with values.
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cast("Workbook", load_workbook(BytesIO(content), data_only=values))
    except Exception as error:  # openpyxl raises what its parsers do
        raise BadWorkbook(f"{type(error).__name__}: {error}") from error


_TRIAL: Final = """\
import base64, gc, io, json, os, sys, warnings
os.environ["OPENBLAS_NUM_THREADS"] = "1"
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
except ImportError:
    pass  # there is no such limit on Windows
from openpyxl import load_workbook
warnings.simplefilter("ignore")
content = base64.b64decode(json.load(sys.stdin))
try:
    for values in (True, False):
        load_workbook(io.BytesIO(content), data_only=values)
        gc.collect()
except MemoryError:
    sys.exit(1)
except Exception as error:
    sys.stdout.write(f"{type(error).__name__}: {error}")
else:
    sys.stdout.write("read")
"""


async def check_readable(content: bytes, seconds: float = 60.0) -> None:
    """Read somebody's workbook in a process of its own, with limits, before it is read in ours.

    A file of a few kB can hold ranges, formulas and sheets that fill the memory, or take hours.

    Raises:
        BadWorkbook: It cannot be read.
        TooLarge: That takes more than 2 GB, or so many seconds.
    """
    _scanned(content)
    packed = base64.b64encode(content).decode()
    try:
        answer = await ask_process(_TRIAL, packed, seconds)
    except TimeoutError:
        raise TooLarge(f"reading it takes more than {seconds:g} s") from None
    if not answer:
        raise TooLarge("reading it takes too much memory")
    if answer != "read":
        raise BadWorkbook(answer)


def sheet_names(archive: ZipFile) -> list[str]:
    """Of a workbook that is not read as a whole, which takes long."""
    try:
        with archive.open(_CONTENTS) as opened:
            content = opened.read(_MOST_CONTENTS + 1)
        if len(content) > _MOST_CONTENTS:
            raise BadWorkbook(f"its list of sheets has more than {size(_MOST_CONTENTS)}")
        root = ElementTree.fromstring(content)  # noqa: S314 - its parser bounds what entities become
    except (BadZipFile, EOFError, KeyError, RuntimeError, zlib.error) as error:
        raise BadWorkbook(f"its list of sheets cannot be unpacked: {error}") from error
    except ElementTree.ParseError as error:
        raise BadWorkbook(f"its list of sheets is no XML: {error}") from error
    return [each.get("name", "") for each in root.findall("{*}sheets/{*}sheet")]


@dataclass(frozen=True, slots=True)
class CellRange:
    """Cells of a sheet; an end that is not given is that of the sheet."""

    sheet: str
    """Empty: the first one."""
    left: int
    top: int
    right: int | None
    bottom: int | None

    def cells(self, sheet: Sheet) -> Iterator[tuple[int, int]]:
        """Row and column of each cell."""
        last_row = min(sheet.max_row, _LAST_ROW) if self.bottom is None else self.bottom
        last_column = sheet.max_column if self.right is None else self.right
        for column in range(self.left, last_column + 1):
            for row in range(self.top, last_row + 1):
                yield row, column


def cell_ranges(position: str, sheet: str = "") -> list[CellRange]:
    """The ranges of an `answer_position`: `'Paid in, 2020'!A1:D43,B7`; `ValueError` for others.

    A comma in a sheet name separates nothing if the name is in quotes; some positions in the data
    have one quote too few.
    """
    balanced = position.count("'") % 2 == 0
    parts = _PART.findall(position) if balanced else position.split(",")
    ranges = [_range(part.strip(), sheet) for part in parts if part.strip()]
    if not ranges:
        raise ValueError("it names no cell")
    return ranges


def _range(part: str, sheet: str) -> CellRange:
    named, _, cells = part.rpartition("!")
    area = _AREA.fullmatch(cells.strip().strip("'").replace("$", "").upper())
    if area is None or not (area[1] or area[2]):
        raise ValueError(f"{part!r} is no range of cells")
    letters, numbers = (area[1], area[3]), (area[2], area[4])
    left, right = _ends([_column(each) if each is not None else None for each in letters])
    top, bottom = _ends([int(each or 0) if each is not None else None for each in numbers])
    width, height = (right or 1) - left + 1, (bottom or 1) - top + 1
    if (right or 1) > _LAST_COLUMN or (bottom or 1) > _LAST_ROW or width * height > _MOST_CELLS:
        raise ValueError(f"{part!r} is larger than what is compared")
    return CellRange(named.strip().strip("'") or sheet, left, top, right, bottom)


def _ends(given: Sequence[int | None]) -> tuple[int, int | None]:
    """First and last; 0 is an end that is not given, None a range of one."""
    first, last = given
    if last is None:
        last = first
    if not first or not last:
        return first or 1, None
    return min(first, last), max(first, last)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _letters(column: int) -> str:
    text = ""
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


@dataclass(frozen=True, slots=True)
class Difference:
    where: str
    """`Sheet1!B7`; or a sheet that is missing."""
    wanted: object = None
    found: object = None
    formula: bool = False
    """Whether the cell has a formula whose value was never computed."""

    def __str__(self) -> str:
        if "!" not in self.where:
            return f"there is no sheet {self.where!r}"
        found = (
            "has a formula without a computed value"
            if self.formula
            else f"is {_quoted(self.found)}"
        )
        return f"{self.where} should be {_quoted(self.wanted)} and {found}"


def _quoted(value: object) -> str:
    return "empty" if value is None else repr(value)[:80]


def marked_formulas(wrong: Sequence[Difference], content: bytes) -> list[Difference]:
    """The same; empty cells of the workbook that have a formula are marked."""
    book = read_workbook(content, values=False)
    return [
        replace(each, formula=_is_formula(_cell(book, each.where)))
        if each.found is None and "!" in each.where
        else each
        for each in wrong
    ]


def _cell(book: Workbook, where: str) -> Cell:
    sheet, _, name = where.rpartition("!")
    return book[sheet][name]


def differences(gold: Workbook, other: Workbook, ranges: Sequence[CellRange]) -> list[Difference]:
    """The cells that are not as they should be; `KeyError` if the gold has no such sheet."""
    found: list[Difference] = []
    for area in ranges:
        name = area.sheet or gold.sheetnames[0]
        right = gold[name]
        if name not in other.sheetnames:
            found.append(Difference(name))
            continue
        checked = other[name]
        for row, column in area.cells(right):
            ours, theirs = right.cell(row, column).value, checked.cell(row, column).value
            if not same_value(ours, theirs):
                found.append(Difference(f"{name}!{_letters(column)}{row}", ours, theirs))
    return found


def same_value(one: object, other: object) -> bool:
    """Whether two cells count as equal: an empty text is an empty cell, a date its number."""
    first, second = _comparable(one), _comparable(other)
    if first in (None, "") and second in (None, ""):
        return True
    return type(first) is type(second) and first == second


def _comparable(value: object) -> object:
    """Numbers to two decimals, also those in texts; dates to whole days; times to minutes."""
    match value:
        case int() | float():
            return _rounded(value)
        case time():
            return str(value)[:-3]
        case datetime():
            passed = value.replace(tzinfo=None) - _DAY_ZERO
            return float(round(passed.days + passed.seconds / 86400.0, 0))
        case str():
            return _rounded(value)
        case _:
            return value


def _rounded(value: str | float) -> object:
    try:
        return round(float(value), 2)
    except (ValueError, OverflowError):
        return value


def _is_formula(cell: object) -> bool:
    return getattr(cell, "data_type", "") == "f"
