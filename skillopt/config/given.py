"""Values of settings with their source: how they were written, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        value = _deep(merged[key].value, given.value) if key in merged else given.value
        merged[key] = replace(given, value=value)
    return merged


def read(value: object) -> object:
    """The value without `Plain`, as Python sees it."""
    match value:
        case Plain():
            return read(value.value)
        case dict():
            return {key: read(inner) for key, inner in cast("dict[str, object]", value).items()}
        case list():
            return [read(item) for item in cast("list[object]", value)]
        case _:
            return value


class NoOtherReading(LookupError):
    """A value can be read in one way only."""


Turn: TypeAlias = Callable[[object], object]
"""Another reading of a value; raises `NoOtherReading`."""


def written(value: object) -> object:
    """The text that a value was written as, where it reads as something other than text."""
    if isinstance(value, Plain):
        return value.text
    raise NoOtherReading


def turned(value: object, place: Sequence[int | str], turn: Turn) -> object:
    """The value with its part at `place` read otherwise.

    Parts of the place that lead nowhere (pydantic names the members of a union) are passed over.
    """
    match value:
        case Plain():
            try:
                return turned(value.value, place, turn)
            except NoOtherReading:
                return turn(value)
        case dict() | list() if place:
            head, *rest = place
            inside = cast("dict[int | str, object] | list[object]", value)
            if isinstance(inside, dict):
                if head in inside:
                    return inside | {head: turned(inside[head], rest, turn)}
            elif isinstance(head, int) and head < len(inside):
                return [*inside[:head], turned(inside[head], rest, turn), *inside[head + 1 :]]
            return turned(inside, rest, turn)
        case _:
            return turn(value)


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
