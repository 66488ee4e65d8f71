"""Identifies rows: by id, by content and by normalised content."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import cast

from skillopt.core.controls import folded
from skillopt.datasets.rows import Row, shape
from skillopt.errors import DataError

_LONGEST = 120
_UNSPOKEN = re.compile(r"[\W_]+")
# Most of what is unspoken is ASCII, and this removes it an order of magnitude faster.
_ASCII_UNSPOKEN = str.maketrans("", "", "".join(c for c in map(chr, range(128)) if not c.isalnum()))


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
            yield _UNSPOKEN.sub("", folded(str(value)).translate(_ASCII_UNSPOKEN))


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
