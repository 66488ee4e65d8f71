"""Reads a row by the column names of the settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import cast

from skillopt.datasets.rows import Row, shape
from skillopt.envs.dataset import present
from skillopt.errors import ConfigError, DataError

_MOST_OPTIONS = 26


def question(row: Row, column: str) -> str:
    """What the agent is asked."""
    value = present(row, column, "; name the right column in env.input")
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{row.where}: {column!r} must be text, found {shape(value)}")
    return value


def answers(row: Row, column: str) -> tuple[str, ...]:
    """The acceptable answers, as text."""
    value = present(row, column, "; name the right column in env.answer")
    many = cast("list[object]", value) if isinstance(value, list) else [value]
    if not many:
        raise DataError(f"{row.where}: {column!r} is an empty list; give at least one answer")
    for item in many:
        if not isinstance(item, str | int | float) or not str(item).strip():
            raise DataError(
                f"{row.where}: {column!r} must be text, a number or a list of them, "
                f"found {shape(item)}"
            )
    return tuple(_text(item) for item in many)


def answers_to_quote(row: Row, column: str) -> tuple[str, ...]:
    """The acceptable answers where the row has any; nothing is refused."""
    try:
        return answers(row, column)
    except DataError:
        return ()


def options(row: Row, choices: str | Sequence[str]) -> tuple[str, ...]:
    """The options of a question: given for all rows, or the row's own."""
    found = _own_options(row, choices) if isinstance(choices, str) else tuple(choices)
    if not 2 <= len(found) <= _MOST_OPTIONS:
        raise DataError(f"{row.where}: {len(found)} options to choose from; give 2 to 26")
    return found


def _own_options(row: Row, column: str) -> tuple[str, ...]:
    value = present(row, column, "; name the right column in env.choices")
    many: object = value.split("|") if isinstance(value, str) else value
    items = cast("list[object]", many) if isinstance(many, list) else []
    if not items or not all(isinstance(item, str | int | float) for item in items):
        raise DataError(
            f"{row.where}: {column!r} must be a list of texts, or text split at '|', "
            f"found {shape(value)}"
        )
    return tuple(_text(item).strip() for item in items)


def kind(row: Row, column: str) -> str:
    """The group of a row; `default` where it names none."""
    value = row.data.get(column)
    if value is None:
        return "default"
    if not isinstance(value, str | int):
        raise DataError(f"{row.where}: {column!r} must be text, found {shape(value)}")
    return _text(value).strip() or "default"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with `{column}` places."""

    text: str
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, *, hidden: str) -> Template:
        """Read a template; it may not show the column `hidden`."""
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise ConfigError(f"env.template: {error}; write {{{{ and }}}} for braces") from error
        fields = [(name, spec, how) for _, name, spec, how in parts if name is not None]
        for name, spec, how in fields:
            if not name or spec or how or not set(name).isdisjoint(".["):
                raise ConfigError("env.template: a place is {column} and nothing else in braces")
            if name == hidden:
                raise ConfigError(f"env.template: {{{name}}} would show the answer; remove it")
        if not fields:
            raise ConfigError("env.template: no {column} in it, so all tasks would be the same")
        return cls(text, tuple(name for name, _, _ in fields))

    def fill(self, row: Row) -> str:
        """The text with the row's values in place; lists and objects appear as JSON."""
        hint = "; env.template asks for it"
        return self.text.format_map(
            {name: _text(present(row, name, hint)) for name in self.columns}
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
