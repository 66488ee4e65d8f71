"""Common parts of environments that use a dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

from skillopt.core.chat import Image
from skillopt.core.episode import Workspace
from skillopt.core.nearest import did_you_mean
from skillopt.core.ports import Episode
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Split, Task
from skillopt.datasets.rows import Row, shape
from skillopt.datasets.splits import SPLITS, BadRows, Splits, check_apart, has_id, row_id
from skillopt.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of each split, and what should be looked at though it is no error."""

    splits: Mapping[Split, tuple[Task, ...]]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, splits: Splits, make: Callable[[str, Row], Task], *, id_column: str = "id"
    ) -> Tasks:
        """Turn every row into a task; `make` gets the id and refuses rows it cannot use.

        Raises:
            BadRows: All rows that are refused, or else all that stand twice.
        """
        made: dict[Split, tuple[Task, ...]] = {}
        faults: list[tuple[Row, DataError]] = []
        for split in SPLITS:
            tasks: list[Task] = []
            for row in splits[split]:
                try:
                    task = make(row_id(row, id_column), row)
                except DataError as error:  # noqa: PERF203 - all of them are told at once
                    faults.append((row, error))
                else:
                    place = "" if has_id(row, id_column) else row.where
                    tasks.append(replace(task, where=place))
            made[split] = tuple(tasks)
        if faults:
            columns = {getattr(error, "column", None) for _, error in faults}
            first = faults[0][1]
            if isinstance(first, _NoField) and len(columns) == 1 < len(faults) == len(splits):
                raise first.in_all_rows
            raise BadRows([(row, str(error)) for row, error in faults])
        return cls(made, tuple(check_apart(splits, id_column)))


def _nothing(_: str) -> Mapping[str, object]:
    return {}


@dataclass(frozen=True, slots=True)
class Question:
    """An episode that is one question, judged by its answer alone."""

    instructions: str
    brief: str
    judge: Callable[[str], Awaitable[Score]]
    empty_ok: bool = False
    """Whether a reply without any text is an answer."""
    tell: Callable[[str], Mapping[str, object]] = _nothing
    """What result files say about a reply besides its score."""
    images: tuple[Image, ...] = ()
    """Images that belong to the brief."""
    workspace: Workspace | None = None
    """Files that belong to it."""

    async def score(self, trajectory: Trajectory) -> Score:
        return await self.judge(trajectory.answer)

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        """What result files say about the attempt besides its score."""
        return self.tell(trajectory.answer)


class DatasetEnvironment:
    """An environment in which every row is one question."""

    initial_skill: ClassVar[Path | None] = None
    prompts: ClassVar[Path | None] = None

    def __init__(
        self, splits: Splits, make: Callable[[str, Row], Task], *, id_column: str = "id"
    ) -> None:
        self._tasks = Tasks.of(splits, make, id_column=id_column)

    @property
    def warnings(self) -> Sequence[str]:
        """Rows of different splits that are almost the same."""
        return self._tasks.warnings

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks.splits[split]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Episode, None]:
        yield self.question(row_of(task))

    def question(self, row: Row) -> Question:
        raise NotImplementedError


def id_column(splits: Splits, otherwise: str) -> str:
    """`id` if any row has one; else the column in which the owners have it."""
    return "id" if any(has_id(row) for split in SPLITS for row in splits[split]) else otherwise


def row_of(task: Task) -> Row:
    """The row that a task was made from, named after its place, or else after the task."""
    return Row(task.data, task.where or f"task {task.id!r}")


def text_field(row: Row, column: str, hint: str = "") -> str:
    value = present(row, column, hint)
    if not isinstance(value, str):
        raise DataError(f"{row.where}: {column!r} must be text, found {shape(value)}{hint}")
    return value


def texts_field(row: Row, column: str) -> tuple[str, ...]:
    value = present(row, column)
    if not isinstance(value, list):
        found = shape(value)
        raise DataError(f"{row.where}: {column!r} must be a list of texts, found {found}")
    items = cast("list[object]", value)
    if not items:
        raise DataError(f"{row.where}: {column!r} is an empty list; give at least one text")
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise DataError(f"{row.where}: {column!r}[{index}] must be text, found {shape(item)}")
    return tuple(cast("list[str]", items))


def answers_field(row: Row, column: str) -> tuple[str, ...]:
    """The texts that are not blank: a reply that says nothing is no answer."""
    answers = tuple(text for text in texts_field(row, column) if text.strip())
    if not answers:
        raise DataError(f"{row.where}: {column!r} has only empty texts; give an answer")
    return answers


def filled_field(row: Row, column: str) -> str:
    """Text that is not blank."""
    value = text_field(row, column)
    if not value.strip():
        raise DataError(f"{row.where}: {column!r} is empty; give it some text")
    return value


def named_field(row: Row, *columns: str) -> str:
    """The first of these fields that holds text or a whole number, as text; empty: none does."""
    for column in columns:
        value = row.data.get(column)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""


def require_one_turn(turns: int) -> None:
    if turns != 1:
        raise ConfigError(f"env.max_turns: {turns} is not supported; use 1")


def present(row: Row, column: str, hint: str = "") -> object:
    if column not in row.data:
        raise _NoField(row, column, hint)
    return row.data[column]


class _NoField(DataError):
    """A row without a field that it must have."""

    def __init__(self, row: Row, column: str, hint: str) -> None:
        self.where, self.column, self.hint, self.names = row.where, column, hint, list(row.data)
        super().__init__(f"{row.where}: {self.lacks}{hint}")

    @property
    def lacks(self) -> str:
        return f"no field {self.column!r} (found: {', '.join(self.names)})"

    @property
    def in_all_rows(self) -> DataError:
        """What to say if no row has it: the name is wrong, not the rows."""
        near = did_you_mean(self.column, self.names)
        meant = f"; {near}" if near else ""
        return DataError(f"{self.where}: {self.lacks}, nor in any other row{meant}{self.hint}")


def fingerprint(name: str, settings: Mapping[str, object]) -> str:
    """The name of an environment and of the settings that change its briefs or scores."""
    text = json.dumps(settings, sort_keys=True)
    return f"{name}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
