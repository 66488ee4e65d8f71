from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest

from skillopt.core.rollout import Score
from skillopt.core.task import Gold, Split, Task
from skillopt.envs.dataset import Question
from skillopt.testing.contracts.environments import check_environment


@dataclass
class Toy:
    """An environment that keeps the contract, until one of its settings says otherwise."""

    name: str = "toy"
    same_ids: bool = False
    bad_id: bool = False
    empty: bool = False
    growing: bool = False
    changing_brief: bool = False
    own_instructions: bool = False
    generous: bool = False
    silent: bool = False
    moody: bool = False
    spoiling: bool = False
    changing_name: bool = False
    _ticks: count[int] = field(default_factory=count)

    @property
    def fingerprint(self) -> str:
        return f"toy-{next(self._ticks)}" if self.changing_name else "toy"

    def tasks(self, split: Split) -> Sequence[Task]:
        if self.empty:
            return ()
        name = "same" if self.same_ids else f"{split}/1" if self.bad_id else f"{split}-1"
        data: dict[str, object] = {"seen": next(self._ticks)} if self.growing else {"seen": 0}
        return [Task(name, data=data)]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Question, None]:
        if self.spoiling and isinstance(task.data, dict):
            task.data["opened"] = True

        async def judge(reply: str) -> Score:
            value = next(self._ticks) % 7 / 10 if self.moody else float(self.generous)
            return Score(value, value, "" if self.silent else "wrong answer")

        instructions = task.id if self.own_instructions else "Answer."
        brief = f"Go {next(self._ticks)}" if self.changing_brief else "Go"
        yield Question(instructions, brief, judge)


@dataclass
class Boastful(Toy):
    """Tells an answer that its own scorer does not accept."""

    def gold(self, task: Task) -> Gold:
        return Gold(answers=("right",), reply="right")


async def test_an_environment_that_keeps_the_contract_passes():
    await check_environment(Toy())


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Toy(name=""), "has a name"),
        (Toy(changing_name=True), "fingerprint is stable"),
        (Toy(same_ids=True), "ids are unique"),
        (Toy(bad_id=True), "could leave its folder"),
        (Toy(empty=True), "the train split has tasks"),
        (Toy(growing=True), "lists the same tasks each time"),
        (Toy(changing_brief=True), "has the same brief each time"),
        (Toy(own_instructions=True), "instructions are the same"),
        (Toy(generous=True), "does not pass"),
        (Toy(silent=True), "gets feedback"),
        (Toy(moody=True), "gets the same score"),
        (Toy(spoiling=True), "does not change it"),
        (Boastful(), "the gold answer to task 'train-1' passes"),
    ],
)
async def test_a_broken_promise_is_named(broken: Toy, promise: str):
    with pytest.raises(AssertionError, match=promise):
        await check_environment(broken)
