"""Environment `custom`: a table, an input column, an answer column, a scorer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import ClassVar

from skillopt.core.chat import Model
from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Split, Task
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs import metrics
from skillopt.envs.custom import columns, scorers
from skillopt.envs.dataset import Question, Tasks, fingerprint
from skillopt.envs.judge import Judge
from skillopt.errors import ConfigError

_OF_SCORER = {"scorer", "rubric"}
"""Settings that count with the identity of the scorer."""


class Custom:
    """Every row is one question; the scorer of the settings judges its answer."""

    Settings = columns.Settings
    initial_skill: ClassVar[Path | None] = None
    prompts: ClassVar[Path | None] = None
    name = "custom"

    def __init__(self, settings: columns.Settings, splits: Splits) -> None:
        _check(settings)
        self._settings = settings
        self._template = (
            columns.Template.parse(settings.template, hidden=settings.answer)
            if settings.template
            else None
        )
        self._scorer = scorers.scorer_of(settings, self._brief)
        known = {key: each for key, each in asdict(settings).items() if key not in _OF_SCORER}
        plain = fingerprint(self.name, {**known, "scorer": ""})
        scorer = self._scorer.identity.replace("/", " ")  # one part, whatever it says
        self._fingerprint = f"{plain}/scorer={scorer}"
        self._tasks = Tasks.of(splits, self._task, id_column=settings.id)

    @property
    def fingerprint(self) -> str:
        """Name, settings, scorer and judge; a function counts with its code and what it uses."""
        return self._fingerprint

    @property
    def roles(self) -> tuple[str, ...]:
        """The judge, if it is the scorer."""
        return ("judge",) if isinstance(self._scorer, scorers.Judged) else ()

    def with_models(self, models: Mapping[str, Model]) -> Custom:
        """The same environment, with a scorer that can ask the judge."""
        if not isinstance(self._scorer, scorers.Judged):
            return self
        given, judge = copy(self), Judge(models["judge"], self._settings.rubric)
        given._scorer = replace(self._scorer, judge=judge)
        given._fingerprint = f"{self._fingerprint}/judge={judge.fingerprint}"
        return given

    @property
    def warnings(self) -> Sequence[str]:
        """Rows of different splits that are almost the same."""
        return self._tasks.warnings

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of a split, in the order of their rows."""
        return self._tasks.splits[split]

    def gold(self, task: Task) -> Gold | None:
        """The answer column, as the scorer reads it."""
        found = self._scorer.gold(Row(task.data, f"task {task.id!r}"))
        if found is None or found.reply is None or self._settings.extract == "whole":
            return found
        return replace(found, reply=f"<answer>{found.reply}</answer>")

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Question, None]:
        """Nothing to acquire."""
        row = Row(task.data, f"task {task.id!r}")

        async def judge(reply: str) -> Score:
            answer = metrics.extract_answer(reply, self._settings.extract)
            return await self._scorer.score(answer, row)

        settings = self._settings
        brief = self._brief(row)

        def tell(reply: str) -> dict[str, object]:
            gold = self.gold(task)
            return {
                "question": brief,
                "predicted_answer": metrics.extract_answer(reply, settings.extract),
                **({} if gold is None else {"gold_answers": list(gold.answers)}),
            }

        yield Question(settings.instructions, brief, judge, settings.empty_ok, tell)

    def _task(self, name: str, row: Row) -> Task:
        self._brief(row)
        self._scorer.check(row)
        return Task(name, columns.kind(row, self._settings.kind), row.data)

    def _brief(self, row: Row) -> str:
        if self._template:
            return self._template.fill(row)
        text = columns.question(row, self._settings.input)
        if not self._settings.choices:
            return text
        options = columns.options(row, self._settings.choices)
        listed = [f"{metrics.label_of(n)}. {option}" for n, option in enumerate(options)]
        return "\n".join([text, "", *listed])


def _check(settings: columns.Settings) -> None:
    if not (isfinite(settings.tolerance) and settings.tolerance >= 0):
        raise ConfigError(f"env.tolerance: {settings.tolerance} is not a share; use 0 or more")
    if settings.answer in (settings.input, settings.choices) and not settings.template:
        raise ConfigError(f"env.answer: the column {settings.answer!r} is also shown to the agent")
