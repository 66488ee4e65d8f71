"""Environments outside of the package that ask for a judge."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from skillopt.core.chat import Model
from skillopt.core.rollout import Score
from skillopt.core.task import Split, Task
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import Question, Tasks
from skillopt.envs.judge import Judge


@dataclass(frozen=True)
class NoSettings:
    """None."""


class Polite:
    """An environment outside of this package: a judge says whether an answer is polite."""

    Settings = NoSettings
    initial_skill: ClassVar[Path | None] = None
    prompts: ClassVar[Path | None] = None
    name = "polite"
    roles: ClassVar[tuple[str, ...]] = ("judge",)

    def __init__(self, settings: NoSettings, splits: Splits, judge: Judge | None = None) -> None:
        self.settings, self.splits, self.judge = settings, splits, judge
        made = Tasks.of(splits, lambda name, row: Task(name, data=row.data))
        self._tasks = made.splits

    @property
    def fingerprint(self) -> str:
        return "polite/1" if self.judge is None else f"polite/1/{self.judge.fingerprint}"

    def with_models(self, models: Mapping[str, Model]) -> Polite:
        judge = Judge(models["judge"], "A polite answer says please.", ("polite", "rude"))
        return type(self)(self.settings, self.splits, judge)

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks[split]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Question, None]:
        async def score(answer: str) -> Score:
            assert self.judge is not None
            found = await self.judge.ask(question=str(task.data["input"]), answer=answer)
            return Score(float(found.word == "polite"), 0.5, f"{found.word}: {found.reason}")

        yield Question("Be polite.", str(task.data["input"]), score)


class Forgetful(Polite):
    """Does not say which judge it has."""

    @property
    def fingerprint(self) -> str:
        return "forgetful/1"


class Demanding(Polite):
    """Asks for a role that there is not."""

    roles: ClassVar[tuple[str, ...]] = ("critic",)
