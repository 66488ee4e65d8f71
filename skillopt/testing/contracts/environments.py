"""What the engine expects of an environment.

Run all checks at once, `await check_environment(MyEnvironment(...))`, or one by one:

    @pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
    async def test_my_environment_keeps_the_contract(check):
        await check(MyEnvironment(...))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TypeAlias

from skillopt.core.chat import Message
from skillopt.core.ports import Environment, TellsGold
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Split, Task
from skillopt.testing.contracts import check_fingerprint, expect

Check: TypeAlias = Callable[[Environment], Awaitable[None]]

_SPLITS: tuple[Split, ...] = ("train", "val", "test")
_SAMPLE_SIZE = 5


async def names_itself(environment: Environment) -> None:
    """Name and fingerprint are not empty and do not change."""
    expect(bool(environment.name), "an environment has a name")
    check_fingerprint(environment)


async def lists_the_same_tasks_each_time(environment: Environment) -> None:
    """A split always has the same tasks in the same order; train and val are not empty."""
    for split in _SPLITS:
        first = [task.digest for task in environment.tasks(split)]
        again = [task.digest for task in environment.tasks(split)]
        expect(first == again, f"the {split} split lists the same tasks each time")
    for split in _SPLITS[:2]:
        expect(len(environment.tasks(split)) > 0, f"the {split} split has tasks")


async def gives_every_task_its_own_id(environment: Environment) -> None:
    """Ids are unique over all splits and safe as file names."""
    seen: dict[str, Split] = {}
    for split in _SPLITS:
        for task in environment.tasks(split):
            expect(
                task.id not in seen,
                f"ids are unique: {task.id!r} is in {seen.get(task.id)} and in {split}",
            )
            safe = task.id and not task.id.startswith(".") and not set(task.id) & set("/\\\0")
            expect(bool(safe), f"an id names files: {task.id!r} could leave its folder")
            seen[task.id] = split


async def opens_a_task_to_the_same_brief(environment: Environment) -> None:
    """A task always has the same text, and opening it does not change it."""
    for task in _sample(environment):
        before = task.digest
        async with environment.open(task) as episode:
            first = episode.brief
        async with environment.open(task) as episode:
            again = episode.brief
        expect(bool(first.strip()), f"task {task.id!r} has a brief")
        expect(first == again, f"task {task.id!r} has the same brief each time")
        expect(task.digest == before, f"opening task {task.id!r} does not change it")


async def gives_all_tasks_the_same_instructions(environment: Environment) -> None:
    texts: set[str] = set()
    for task in _sample(environment):
        async with environment.open(task) as episode:
            texts.add(episode.instructions)
    expect(len(texts) == 1, "instructions are the same for all tasks")


async def scores_any_answer(environment: Environment) -> None:
    """Empty and nonsense answers get a score with feedback, and do not pass."""
    for task in _sample(environment):
        for answer in ("", "\N{SNOWMAN} no idea \N{SNOWMAN}"):
            score = await _score(environment, task, answer)
            what = f"the answer {answer!r} to task {task.id!r}"
            expect(not score.passed, f"{what} does not pass")
            expect(bool(score.feedback), f"{what} gets feedback")


async def scores_the_same_attempt_alike(environment: Environment) -> None:
    """A score depends only on the task and the attempt."""
    for task in _sample(environment):
        first = await _score(environment, task, "something")
        again = await _score(environment, task, "something")
        expect(first == again, f"the same answer to task {task.id!r} gets the same score")


async def gives_full_marks_to_the_gold_it_tells(environment: Environment) -> None:
    """If an environment provides right answers, they get full marks."""
    if not isinstance(environment, TellsGold):
        return
    for task in _sample(environment):
        gold = environment.gold(task)
        if gold is not None and gold.reply is not None:
            score = await _score(environment, task, gold.reply)
            expect(score.passed, f"the gold answer to task {task.id!r} passes")


ENVIRONMENT_CHECKS: tuple[Check, ...] = (
    names_itself,
    lists_the_same_tasks_each_time,
    gives_every_task_its_own_id,
    opens_a_task_to_the_same_brief,
    gives_all_tasks_the_same_instructions,
    scores_any_answer,
    scores_the_same_attempt_alike,
    gives_full_marks_to_the_gold_it_tells,
)


async def check_environment(environment: Environment) -> None:
    """Run all checks; raises `AssertionError` for the first one that fails."""
    for check in ENVIRONMENT_CHECKS:
        await check(environment)


def _sample(environment: Environment) -> Iterator[Task]:
    for split in _SPLITS:
        yield from islice(environment.tasks(split), _SAMPLE_SIZE)


async def _score(environment: Environment, task: Task, answer: str) -> Score:
    async with environment.open(task) as episode:
        asked = (Message("user", episode.brief), Message("assistant", answer))
        return await episode.score(Trajectory(asked, answer))
