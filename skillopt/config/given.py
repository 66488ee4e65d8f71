"""Values as they were given: what they read as, how they were written, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that reads as something other than text, beside the text that was written.

    YAML takes `1e3` for a number; where the schema wants a model name, the text is the value.
    An absent value has the text "".
    """

    value: object
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """The value of one key; it may hold `Plain`, also inside lists and mappings."""

    value: object
    origin: str
    """For messages: `configs/a.yaml:3` or `command line (a.b=c)`."""
    folder: Path | None = None
    """Where the file lies that gave it."""


Settings: TypeAlias = Mapping[str, Given]
"""Dotted key of two parts -> what was given."""


def merge(base: Settings, child: Settings) -> dict[str, Given]:
    """The settings of both, with the child's values before the base's; lists are replaced."""
    merged = dict(base)
    for key, given in child.items():
        old = merged.get(key)
        value = given.value if old is None else _deep(old.value, given.value)
        merged[key] = Given(value, given.origin, given.folder)
    return merged


def read(value: object) -> object:
    """The value without `Plain`, as Python sees it."""
    match value:
        case Plain():
            return read(value.value)
        case dict():
            return {key: read(each) for key, each in cast("dict[str, object]", value).items()}
        case list():
            return [read(each) for each in cast("list[object]", value)]
        case _:
            return value


def as_written(value: object, place: Sequence[int | str]) -> object | None:
    """The value with its part at `place` turned into the text as written; None without a text.

    Parts of the place that lead nowhere (pydantic names the members of a union) are passed over.
    """
    match value:
        case Plain():
            found = as_written(value.value, place)
            return value.text if found is None else found
        case dict() | list() if place:
            return _inside(cast("dict[str, object] | list[object]", value), place)
        case _:
            return None


def _inside(
    value: dict[str, object] | list[object], place: Sequence[int | str]
) -> dict[str, object] | list[object] | object | None:
    head, rest = place[0], place[1:]
    match value, head:
        case dict(), str() if head in value:
            found = as_written(value[head], rest)
            return None if found is None else {**value, head: found}
        case list(), int() if head < len(value):
            found = as_written(value[head], rest)
            return None if found is None else [*value[:head], found, *value[head + 1 :]]
        case _:
            return as_written(value, rest)


def _deep(old: object, new: object) -> object:
    below, above = _mapping(old), _mapping(new)
    if below is None or above is None:
        return new
    return below | {
        key: _deep(below[key], value) if key in below else value for key, value in above.items()
    }


def _mapping(value: object) -> dict[str, object] | None:
    inner = value.value if isinstance(value, Plain) else value
    return cast("dict[str, object]", inner) if isinstance(inner, dict) else None
