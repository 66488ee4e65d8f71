"""Environment `custom`: a table, an input column, an answer column, a scorer."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, replace
from math import isfinite

from skillopt.core.chat import Model
from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Task
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs import metrics
from skillopt.envs.custom import columns, scorers
from skillopt.envs.dataset import DatasetEnvironment, Question, fingerprint, row_of
from skillopt.envs.judge import Judge
from skillopt.errors import ConfigError

_OF_SCORER = {"scorer", "rubric"}
"""Settings that count with the identity of the scorer."""


class Custom(DatasetEnvironment):
    """Every row is one question; the scorer of the settings judges its answer."""

    Settings = columns.Settings
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
        own = {key: value for key, value in asdict(settings).items() if key not in _OF_SCORER}
        plain = fingerprint(self.name, {**own, "scorer": ""})
        scorer = self._scorer.identity.replace("/", " ")  # one part, whatever it says
        self._fingerprint = f"{plain}/scorer={scorer}"
        super().__init__(splits, self._task, id_column=settings.id)

    @property
    def fingerprint(self) -> str:
        """Name, settings, scorer and judge; a function counts with its code and what it uses."""
        return self._fingerprint

    @property
    def judge(self) -> Judge | None:
        """The judge of answers, if one scores them and the models of the run exist."""
        return self._scorer.judge if isinstance(self._scorer, scorers.Judged) else None

    @property
    def roles(self) -> tuple[str, ...]:
        return ("judge",) if isinstance(self._scorer, scorers.Judged) else ()

    def with_models(self, models: Mapping[str, Model]) -> Custom:
        if not isinstance(self._scorer, scorers.Judged):
            return self
        judged, judge = copy(self), Judge(models["judge"], self._settings.rubric)
        judged._scorer = replace(self._scorer, judge=judge)
        judged._fingerprint = f"{self._fingerprint}/judge={judge.fingerprint}"
        return judged

    def gold(self, task: Task) -> Gold | None:
        return self._gold(row_of(task))

    def _gold(self, row: Row) -> Gold | None:
        gold = self._scorer.gold(row)
        if gold is None or gold.reply is None or self._settings.extract == "whole":
            return gold
        return replace(gold, reply=f"<answer>{gold.reply}</answer>")

    def question(self, row: Row) -> Question:
        settings, brief = self._settings, self._brief(row)

        async def judge(reply: str) -> Score:
            return await self._scorer.score(metrics.extract_answer(reply, settings.extract), row)

        def details(reply: str) -> dict[str, object]:
            gold = self._gold(row)
            return {
                "question": brief,
                "predicted_answer": metrics.extract_answer(reply, settings.extract),
                **({} if gold is None else {"gold_answers": list(gold.answers)}),
            }

        return Question(settings.instructions, brief, judge, settings.empty_ok, details)

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
