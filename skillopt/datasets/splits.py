"""Train, val and test: read from a folder or split by ratio, without overlap; ids of rows."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Literal, cast

from skillopt.core.controls import folded
from skillopt.core.nearest import did_you_mean
from skillopt.core.seeds import shuffled
from skillopt.core.task import Split, Task
from skillopt.core.wording import counted
from skillopt.datasets.rows import SUFFIXES, Row, read_rows, shape
from skillopt.errors import DataError

SPLITS: tuple[Split, ...] = ("train", "val", "test")
_NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "val": ("val", "valid_seen", "selection", "valid", "validation", "dev"),
    "test": ("test", "valid_unseen"),
}

FILES = "files"
"""Where a split folder keeps the files that its rows name."""
_LONGEST = 120
_PUNCTUATION = re.compile(r"[\W_]+")
# Most punctuation and white space is ASCII, and this removes it ten times as fast.
_ASCII_PUNCTUATION = str.maketrans(
    "", "", "".join(c for c in map(chr, range(128)) if not c.isalnum())
)


@dataclass(frozen=True, slots=True)
class Splits:
    train: tuple[Row, ...]
    val: tuple[Row, ...]
    test: tuple[Row, ...] = ()
    ratio: str = ""
    """How they were cut from one file; empty where they came as they are."""
    cut: tuple[int, ...] = ()
    """Rows of each split when they were cut; some may have been left out since."""
    root: Path | None = None
    """The folder that paths in their rows are relative to; None: they came from memory."""

    def __len__(self) -> int:
        return len(self.train) + len(self.val) + len(self.test)

    def __getitem__(self, split: Split) -> tuple[Row, ...]:
        match split:
            case "train":
                return self.train
            case "val":
                return self.val
            case "test":
                return self.test


def resolve_split(name: str) -> Split | Literal["all"]:
    if name == "all":
        return "all"
    for split, names in _NAMES.items():
        if name in names:
            return split
    known = [*(name for names in _NAMES.values() for name in names), "all"]
    hint = "; ".join(filter(None, (f"use one of {', '.join(known)}", did_you_mean(name, known))))
    raise DataError(f"unknown split {name!r}; {hint}")


def require(splits: Splits, needs: Sequence[Split] = SPLITS) -> Splits:
    """The same splits, once every needed one is known to hold rows."""
    for split in needs:
        if not splits[split]:
            raise DataError(f"the {split} split is empty; give it at least one row")
    return splits


def limit(splits: Splits, count: int) -> Splits:
    """The first `count` rows of each split; 0 keeps all."""
    if count < 0:
        raise DataError(f"the limit is {count}; use 0 for all rows, or a positive number")
    stop = count if count > 0 else None
    train, val, test = (splits[split][:stop] for split in SPLITS)
    return replace(splits, train=train, val=val, test=test)


def without(splits: Splits, rows: Sequence[Row]) -> Splits:
    unwanted = {id(row) for row in rows}
    train, val, test = (
        tuple(row for row in splits[split] if id(row) not in unwanted) for split in SPLITS
    )
    return replace(splits, train=train, val=val, test=test)


def is_split(folder: Path) -> bool:
    """Whether a folder holds splits: something called train and something called val."""
    return folder.is_dir() and all(_places(folder, split) for split in ("train", "val"))


def from_directory(folder: Path, needs: Sequence[Split] = SPLITS) -> Splits:
    """Read `train/`, `val/` and `test/`, or `train.jsonl` and so on, or their aliases.

    A split outside `needs` may be absent or empty.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise DataError(f"{folder}: {what}; split_dir is a folder with train/, val/ and test/")
    train, val, test = (_read_split(folder, split, needed=split in needs) for split in SPLITS)
    files = folder / FILES
    return Splits(train, val, test, root=files if files.is_dir() else folder)


def _places(folder: Path, split: Split) -> list[Path]:
    return [
        place
        for name in _NAMES[split]
        for place in (folder / name, *(folder / f"{name}{suffix}" for suffix in SUFFIXES))
        if place.exists()
    ]


def _read_split(folder: Path, split: Split, *, needed: bool) -> tuple[Row, ...]:
    places = _places(folder, split)
    if len(places) > 1:
        names = ", ".join(place.name for place in places)
        raise DataError(f"{folder}: {names} could each be the {split} split; keep one")
    if not places:
        if needed:
            raise DataError(f"{folder}: no {split} split; add {split}/ or {split}.jsonl")
        return ()
    rows = read_rows(places[0])
    if needed and not rows:
        raise DataError(f"{places[0]}: the {split} split is empty; give it at least one row")
    return tuple(rows)


AUTO = "auto"
THIRDS = "1:1:1"
_USUAL, _FEW_ROWS = "2:1:7", 200


def by_ratio(rows: Sequence[Row], ratio: str = AUTO, seed: int = 42) -> Splits:
    """Shuffle by seed and cut by largest remainder; no split with a share stays empty.

    `auto` is 2:1:7, which leaves most rows for an exact final score. Of fewer than 200 rows that
    would leave fewer than 20 to decide on, so they are cut into thirds.
    """
    if ratio == AUTO:
        ratio = _USUAL if len(rows) >= _FEW_ROWS else THIRDS
    train, val, _ = _sizes(len(rows), _shares(ratio), ratio)
    order = tuple(shuffled(rows, seed))
    cut = (order[:train], order[train : train + val], order[train + val :])
    return Splits(*cut, ratio, tuple(map(len, cut)))


def _shares(ratio: str) -> list[Fraction]:
    try:
        shares = [Fraction(part.strip()) for part in ratio.split(":")]
    except (ValueError, ZeroDivisionError):
        shares = []
    if len(shares) != len(SPLITS) or min(shares) < 0 or not any(shares):
        raise DataError(
            f"the split ratio {ratio!r} is not train:val:test; write three numbers such as '2:1:7'"
        )
    return [share / sum(shares) for share in shares]


def _sizes(count: int, shares: Sequence[Fraction], ratio: str) -> list[int]:
    wanted = [index for index, share in enumerate(shares) if share]
    if not count:
        raise DataError("there are no rows")
    if count < len(wanted):
        raise DataError(
            f"{counted(count, 'row')} cannot fill the {len(wanted)} splits of the ratio {ratio!r}; "
            "add rows, or use them all for an evaluation: a ratio of 0:0:1 (env.split_ratio, or "
            "--ratio of `skillopt materialize`) and --split test"
        )
    quotas = [share * count for share in shares]
    sizes = [floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(sizes)), key=lambda i: sizes[i] - quotas[i])
    for index in by_remainder[: count - sum(sizes)]:
        sizes[index] += 1
    for index in wanted:
        if not sizes[index]:
            sizes[sizes.index(max(sizes))] -= 1
            sizes[index] = 1
    return sizes


def _by_number(text: str) -> list[str | int]:
    """For an order in which `t.csv:9` comes before `t.csv:10`."""
    return [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", text)]


class BadRows(DataError):
    """Rows that cannot be used, all of them, each with its place."""

    def __init__(self, faults: Sequence[tuple[Row, str]], others: Sequence[str] = ()) -> None:
        """Name rows that could be left out, and what would be wrong without them as well."""
        self.faults = tuple(sorted(faults, key=lambda fault: _by_number(fault[0].where)))
        problems = [*others, *(text for _, text in self.faults)]
        more = len(problems) - _SHOWN
        self.listed = "\n".join([*problems[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
        hint = "\nenv.drop_bad_rows=true leaves such rows out" if faults else ""
        super().__init__(f"{self.listed}{hint}")


_SHOWN = 20


def check_apart(splits: Splits, id_column: str = "id") -> list[str]:
    """Refuse shared rows and ids; return a warning if there are near duplicates across splits.

    Two rows are the same when they are equal but for their ids, near duplicates when they are
    equal but for case, spaces and punctuation.

    Raises:
        BadRows: Of rows that are the same, all but the first; every id that stands twice.
    """
    ids: dict[str, list[_RowPlace]] = {}
    contents: dict[str, _RowPlace] = {}
    gists: dict[str, _RowPlace] = {}
    near_pairs: list[str] = []
    repeated: list[tuple[Row, str]] = []
    for split in SPLITS:
        for row in splits[split]:
            place = _RowPlace(split, row.where)
            same = contents.setdefault(content_digest(row, id_column), place)
            name = row_id(row, id_column)
            named = ids.setdefault(name, [])
            if same.split != split or (same is not place and named[:1] == [same]):
                what = _REMOVE if same.split == split else _SHARED
                repeated.append((row, f"the same row is in {same} and in {place}; {what}"))
                continue
            named.append(place)
            near = gists.setdefault(gist_digest(row, id_column), place)
            if near.split != split:
                near_pairs.append(f"almost the same row is in {near} and in {place}")
    clashes = _clashes(ids)
    if repeated or clashes:
        raise BadRows(repeated, clashes)
    if len(near_pairs) > 1:
        return [f"{near_pairs[0]}, and {len(near_pairs) - 1} more like it"]
    return near_pairs


def check_ids(tasks: Mapping[Split, Sequence[Task]]) -> None:
    """Refuse tasks with the same id, in one split or in two.

    Raises:
        BadRows: Every id that stands twice, with the splits that it is in.
    """
    places: dict[str, list[_RowPlace]] = {}
    for split, of_split in tasks.items():
        for task in of_split:
            places.setdefault(task.id, []).append(_RowPlace(split, task.where))
    if clashes := _clashes(places):
        raise BadRows([], clashes)


def _clashes(places: Mapping[str, Sequence[_RowPlace]]) -> list[str]:
    """A line for each id that stands several times."""
    shared = ((name, found) for name, found in places.items() if len(found) > 1)
    lines: list[str] = []
    for name, found in shared:
        first, second, *more = sorted(found, key=lambda place: _by_number(place.where))
        rest = f" and in {len(more)} more" if more else ""
        lines.append(f"the id {name!r} is in {first} and in {second}{rest}; {_RENAME}")
    return lines


_REMOVE = "remove one"
_SHARED = f"splits must not share rows, {_REMOVE}"
_RENAME = "ids must be unique, rename or remove one"


@dataclass(frozen=True, slots=True)
class _RowPlace:
    split: Split
    where: str

    def __str__(self) -> str:
        return f"{self.split} ({self.where})" if self.where else self.split


def has_id(row: Row, column: str = "id") -> bool:
    value = row.data.get(column)
    return value is not None and not (isinstance(value, str) and not value.strip())


def row_id(row: Row, column: str = "id") -> str:
    """The row's id as text; without one, a name made from its content.

    Ids name files and folders, so one that could leave its folder is refused.
    """
    value = row.data.get(column)
    if not has_id(row, column):
        return f"row-{content_digest(row, column)}"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(
            f"{row.where}: {column!r} is {shape(value)}; an id is text or a whole number"
        )
    name = str(value).strip()
    if fault := _fault(name):
        raise DataError(f"{row.where}: the id {name[:60]!r} {fault}; rename it, it names files")
    return name


def content_digest(row: Row, column: str = "id") -> str:
    """Name of everything in the row but its id."""
    content = {key: value for key, value in row.data.items() if key != column}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def gist_digest(row: Row, column: str = "id") -> str:
    """Like the content, but blind to case, spaces, punctuation and what cannot be seen."""
    leaves = (
        f"{key}={leaf}"
        for key in sorted(row.data)
        if key != column
        for leaf in _leaves(row.data[key])
    )
    return hashlib.sha256("\x1f".join(leaves).encode()).hexdigest()[:16]


def _leaves(value: object) -> Iterator[str]:
    match value:
        case Mapping():
            for key, item in sorted(cast("Mapping[str, object]", value).items()):
                yield key
                yield from _leaves(item)
        case list():
            for item in cast("list[object]", value):
                yield from _leaves(item)
        case _:
            yield _PUNCTUATION.sub("", folded(str(value)).translate(_ASCII_PUNCTUATION))


def _fault(name: str) -> str | None:
    if "/" in name or "\\" in name:
        return "holds a slash"
    if ".." in name:
        return "holds '..'"
    if name.startswith("."):
        return "starts with a dot"
    if any(unicodedata.category(char).startswith("C") for char in name):
        return "holds a control character"
    if len(name.encode()) > _LONGEST:
        return f"is longer than {_LONGEST} bytes"
    return None
