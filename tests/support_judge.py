"""A judge on loopback, and environments outside of the package that ask for one."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from aiohttp import web
from support_wire import completion, says

from skillopt.core.chat import Model
from skillopt.core.rollout import Score
from skillopt.core.task import Split, Task
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import Question, Tasks
from skillopt.envs.judge import Judge

RUBRIC = "Correct is the reference answer, in any case, and nothing else."


def shown(prompt: str, name: str) -> str:
    found = re.search(rf"<<{name} (\w+)>>\n(.*)\n<</{name} \1>>", prompt, re.DOTALL)
    assert found is not None, prompt
    return found[2]


def verdict(prompt: str) -> str:
    """Judges by the rubric."""
    answer, reference = shown(prompt, "answer to judge"), shown(prompt, "reference answer")
    right = answer.strip().casefold() == reference.strip().casefold()
    reason = f"expected {reference!r}, got {answer!r}"
    return json.dumps({"reason": reason, "verdict": "correct" if right else "incorrect"})


async def grades(request: web.Request) -> web.StreamResponse:
    said = (await request.json())["messages"][-1]["content"]
    text = "OK" if said == "Reply with OK." else verdict(said)
    return await says(completion(text))(request)


def judged(url: str, **more: object) -> dict[str, object]:
    return {
        "env.scorer": "judge",
        "env.rubric": RUBRIC,
        "model.judge": "grader",
        "model.judge_backend": "openai_compatible",
        "model.judge_base_url": url,
        **more,
    }


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
