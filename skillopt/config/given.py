"""Values of settings with their source: how they were written, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that reads as something other than text, beside the text that was written.

    YAML takes `1e3` for a number; where the schema wants a model name, the text is the value.
    An absent value has the text "".
    """

    value: object
    text: str


@dataclass(frozen=True, slots=True)
class GivenValue:
    """The value of one key; it may hold `Plain`, also inside lists and mappings."""

    value: object
    origin: str
    """For messages: `configs/a.yaml:3` or `command line (a.b=c)`."""
    folder: Path | None = None
    """Where the file lies that gave it."""


Settings: TypeAlias = Mapping[str, GivenValue]
"""Dotted key of two parts -> what was given."""


def merge(base: Settings, child: Settings) -> dict[str, GivenValue]:
    """The settings of both, with the child's values before the base's; lists are replaced."""
    merged = dict(base)
    for key, given in child.items():
        old = merged.get(key)
        value = given.value if old is None else _deep(old.value, given.value)
        merged[key] = GivenValue(value, given.origin, given.folder)
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


NO_OTHER: Final = object()
"""Says that a value has no other reading."""

Turn: TypeAlias = Callable[[object], object]
"""Another reading of a value, or `NO_OTHER`."""


def written(value: object) -> object:
    """The text that a value was written as, where it reads as something other than text."""
    return value.text if isinstance(value, Plain) else NO_OTHER


def turned(value: object, place: Sequence[int | str], turn: Turn) -> object:
    """The value with its part at `place` read otherwise; `NO_OTHER` where that cannot be.

    Parts of the place that lead nowhere (pydantic names the members of a union) are passed over.
    """
    match value:
        case Plain():
            found = turned(value.value, place, turn)
            return turn(value) if found is NO_OTHER else found
        case dict() | list() if place:
            return _inside(cast("dict[str, object] | list[object]", value), place, turn)
        case _:
            return turn(value)


def _inside(
    value: dict[str, object] | list[object], place: Sequence[int | str], turn: Turn
) -> object:
    head, rest = place[0], place[1:]
    match value, head:
        case dict(), str() if head in value:
            found = turned(value[head], rest, turn)
            return found if found is NO_OTHER else {**value, head: found}
        case list(), int() if head < len(value):
            found = turned(value[head], rest, turn)
            return found if found is NO_OTHER else [*value[:head], found, *value[head + 1 :]]
        case _:
            return turned(value, rest, turn)


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
