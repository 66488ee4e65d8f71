"""The settings of environment `custom`, and how they read a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Final, cast

from skillopt.core.wording import counted
from skillopt.datasets.rows import Row, shape
from skillopt.envs.dataset import present
from skillopt.envs.metrics import Extract
from skillopt.errors import ConfigError, DataError

_MOST_OPTIONS: Final = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Columns, scorer and text around the input; every key has a working default."""

    input: str = "input"
    """Column that the agent is shown, when there is no template."""
    answer: str = "answer"
    """Column with the reference: text, a number, or a list of acceptable ones."""
    id: str = "id"
    """Column with the id; a row without one is named after its content."""
    kind: str = "kind"
    """Column that groups rows in reports; may be absent."""
    scorer: str | Callable[..., object] = "exact"
    """exact, f1, contains, regex, numeric, choice, judge, `module:function`, or a function.

    A function gets `(answer, row)` and returns a number from 0 to 1, a bool, a `Score`, or a
    mapping with `hard` and perhaps `soft` and `feedback`; it may be async. A plain one is called
    in a worker thread, so that a slow one does not hold up the others.
    """
    rubric: str = ""
    """For judge: the rules by which the judge model calls an answer correct or incorrect."""
    instructions: str = ""
    """Fixed text that stands before the skill."""
    template: str = ""
    """The request, with `{column}` where a field goes; empty: the input as it is."""
    tolerance: float = 0.0
    """For numeric: how far off is still right, as a share of the reference."""
    choices: str | tuple[str, ...] = ()
    """For choice: the options, or the column with them (a list, or text split at `|`)."""
    case_sensitive: bool = False
    """For exact, contains and regex. `exact` ignores outer and repeated spaces in any case."""
    extract: Extract = "tag_or_line"
    """Judge the last `<answer>` or else the last line (tag_or_line), or the whole reply."""
    empty_ok: bool = False
    """Whether an empty reply is an answer, and scored; else it is asked again, then a failure."""


def question(row: Row, column: str) -> str:
    value = present(row, column, "; name the right column in env.input")
    if not isinstance(value, str):
        raise DataError(f"{row.where}: {column!r} must be text, found {shape(value)}")
    if not value.strip():
        raise DataError(f"{row.where}: {column!r} is empty; fill it in")
    return value


def answers(row: Row, column: str) -> tuple[str, ...]:
    value = present(row, column, "; name the right column in env.answer")
    many = cast("list[object]", value) if isinstance(value, list) else [value]
    if not many:
        raise DataError(f"{row.where}: {column!r} is an empty list; give at least one answer")
    for item in many:
        if isinstance(item, str) and not item.strip():
            raise DataError(f"{row.where}: {column!r} is empty; fill it in")
        if not isinstance(item, str | int | float):
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
    listed = _own_options(row, choices) if isinstance(choices, str) else tuple(choices)
    if not 2 <= len(listed) <= _MOST_OPTIONS:
        given = counted(len(listed), "option")
        raise DataError(f"{row.where}: {given} to choose from; give 2 to {_MOST_OPTIONS}")
    return listed


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
