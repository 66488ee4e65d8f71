"""Tasks of the real Inspect AI as environments; without the package there is nothing to test."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import analysis
from support_bench import png

from skillopt.api import evaluate_async, train_async
from skillopt.app.environment import ENVIRONMENTS, open_environment
from skillopt.config.load import load_config
from skillopt.core.chat import Reply, Request
from skillopt.core.ports import Environment
from skillopt.core.rollout import Trajectory
from skillopt.datasets.splits import SPLITS
from skillopt.errors import ConfigError, EnvironmentFault
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS, Check

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed: pip install inspect-ai")

TASKS = '''\
import base64
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import choice, f1, includes, match, model_graded_qa
from inspect_ai.solver import generate, multiple_choice, prompt_template, \\
    system_message, use_tools
from inspect_ai.tool import tool


def sums(count):
    return MemoryDataset([
        Sample(id=f"sum/{n}", input=f"What is {n} + {n}?", target=str(2 * n), metadata={"n": n})
        for n in range(count)])


@task
def addition(count: int = 12):
    return Task(
        dataset=sums(count),
        solver=[system_message("You add."), prompt_template("Task: {prompt}"), generate()],
        scorer=match(),
    )


@task
def choices():
    samples = [
        Sample(input=f"Which is {n}?", choices=["0", str(n), "99"], target="B") for n in range(1, 7)
    ]
    return Task(dataset=samples, solver=multiple_choice(), scorer=choice())


@task
def words():
    samples = [Sample(input=f"Name {n}", target=f"red fox {n}") for n in range(6)]
    return Task(dataset=samples, scorer=f1())


@task
def graded():
    samples = [Sample(input=f"Who is {n}?", target=f"person {n}") for n in range(6)]
    return Task(dataset=samples, scorer=model_graded_qa())


@task
def twice():
    return Task(dataset=sums(6), solver=[generate(), generate()], scorer=includes())


@tool
def square():
    async def execute(number: int) -> str:
        """Square a number.

        Args:
            number: the number
        """
        return str(number * number)
    return execute


@task
def tools():
    samples = [Sample(input=f"Square {n}", target=str(n * n)) for n in range(2, 8)]
    return Task(dataset=samples, solver=[use_tools(square()), generate()], scorer=includes())


@task
def picture(path: str):
    samples = [
        Sample(input=[ChatMessageUser(content=[ContentText(text=f"Colour {n}?"),
                                               ContentImage(image=path)])], target="red")
        for n in range(6)]
    return Task(dataset=samples, scorer=includes())


@task
def boxed_in():
    return Task(dataset=sums(6), scorer=includes(), sandbox="docker")


@task
def unscored():
    return Task(dataset=sums(6))


def no_task():
    return 3
'''


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    return str(tmp_path / "tasks.py")


def opened(task: str, **args: object) -> Environment:
    values = {"env.name": "inspect", "env.task": task, "env.task_args": args}
    environment, _, _ = open_environment(load_config(values=values), SPLITS)
    return environment


async def scored(environment: Environment, answer: str) -> tuple[float, float, str]:
    async with environment.open(environment.tasks("train")[0]) as episode:
        score = await episode.score(Trajectory((), answer))
        return score.hard, score.soft, score.feedback


@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
async def test_a_task_of_inspect_keeps_the_contract(check: Check, tasks: str) -> None:
    await check(opened(f"{tasks}@addition"))


async def test_its_solver_writes_the_brief_and_its_scorer_scores(tasks: str) -> None:
    environment = opened(f"{tasks}@addition", count=9)
    task = environment.tasks("train")[0]
    assert re.fullmatch(r"sum-\d", task.id)
    async with environment.open(task) as episode:
        number = re.findall(r"(\d) \+", episode.brief)[0]
        assert episode.brief == f"You add.\n\nTask: What is {number} + {number}?"
    assert await scored(environment, f"It is {2 * int(number)}") == (1, 1, "correct")
    hard, soft, feedback = await scored(environment, "It is 77")
    assert (hard, soft) == (0, 0)
    assert f"expected '{2 * int(number)}'" in feedback


async def test_choices_are_shown_and_read_by_its_own_solver(tasks: str) -> None:
    environment = opened(f"{tasks}@choices")
    async with environment.open(environment.tasks("train")[0]) as episode:
        assert re.search(r"B\) \d", episode.brief)
    assert (await scored(environment, "ANSWER: B"))[0] == 1
    assert (await scored(environment, "ANSWER: C"))[0] == 0


async def test_a_value_between_is_soft(tasks: str) -> None:
    hard, soft, feedback = await scored(opened(f"{tasks}@words"), "red fox")
    assert hard == 0
    assert 0.5 < soft < 1
    assert feedback.startswith("partial answer")


async def test_two_steps_of_training_on_a_task_of_inspect(tasks: str, tmp_path: Path) -> None:
    async def pupil(request: Request) -> Reply:
        number = int(re.findall(r"(\d+) \+", request.messages[-1].text)[0])
        knows = any("Double" in message.text for message in request.messages)
        return Reply(text=str(2 * number) if knows else "no idea")

    async def teacher(request: Request) -> Reply:
        return Reply(text=analysis("Double it.") if request.stage == "analyst" else "{}")

    result = await train_async(
        target=pupil,
        optimizer=teacher,
        skill="# Sums\n",
        out=tmp_path / "run",
        progress=False,
        settings={
            "env.name": "inspect",
            "env.task": f"{tasks}@addition",
            "env.task_args": {"count": 24},
            "train.num_epochs": 1,
            "train.batch_size": 4,
        },
    )
    assert (result.before.mean, result.test_score) == (0, 1)
    assert len(json.loads((tmp_path / "run" / "history.json").read_text("utf-8"))) == 2


def grading(request: Request) -> str:
    said = request.messages[-1].text
    found = re.search(r"\[Submission\]: (.*)\n.*\n\[Criterion\]: (.*)\n", said)
    assert found is not None, said
    return f"GRADE: {'C' if found[1] == found[2] else 'I'}"


def knowing(prompt: str) -> str:
    return "person " + re.findall(r"Who is (\d)", prompt)[-1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a package that Inspect uses
@pytest.mark.parametrize("judged", [True, False])
async def test_a_scorer_that_asks_a_model_asks_the_judge_of_the_run(
    judged: bool, tasks: str, tmp_path: Path
) -> None:
    settings = {
        "env.name": "inspect",
        "env.task": f"{tasks}@graded",
        "env.use_judge": judged,
        "evaluation.max_failure_share": 1,
    }
    found = await evaluate_async(
        "# Skill",
        split="test",
        target=knowing,
        judge=grading if judged else None,
        out=tmp_path / "out",
        progress=False,
        settings=settings,
    )
    if judged:
        assert found.whole.hard == 1
    else:
        assert found.whole.n == 0
        assert all("scorer" in each.message for each in found.whole.failures.values())


async def test_tools_of_a_task_can_be_called(tasks: str) -> None:
    from skillopt.core.abilities import call_tool, tools_of
    from skillopt.core.chat import ToolCall

    environment = opened(f"{tasks}@tools")
    async with environment.open(environment.tasks("train")[0]) as episode:
        (tool,) = tools_of(episode)
        assert (tool.name, tool.parameters["required"]) == ("square", ["number"])
        result = await call_tool(episode, ToolCall("1", "square", '{"number": 7}'))
        assert result.text == "49"


async def test_an_image_of_a_sample_is_shown(tasks: str, tmp_path: Path) -> None:
    from skillopt.core.abilities import images_of

    (tmp_path / "red.png").write_bytes(png(7))
    environment = opened(f"{tasks}@picture", path=str(tmp_path / "red.png"))
    async with environment.open(environment.tasks("train")[0]) as episode:
        (image,) = images_of(episode)
        assert image.media_type == "image/png"
        assert episode.brief.startswith("Colour ")


async def test_a_solver_that_asks_several_times_gives_no_score(tasks: str) -> None:
    with pytest.raises(EnvironmentFault, match="asks the model several times"):
        await scored(opened(f"{tasks}@twice"), "4")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("boxed_in", "needs a sandbox of Inspect"),
        ("unscored", "has no scorer"),
        ("no_task", "is no task of Inspect"),
        ("absent", "cannot be made"),
        ("", "names no task"),
    ],
)
def test_a_task_that_cannot_be_used_is_told_in_one_line(name: str, told: str, tasks: str) -> None:
    with pytest.raises(ConfigError, match=told):
        opened(f"{tasks}@{name}")


def test_the_class_is_found_by_its_name() -> None:
    assert ENVIRONMENTS.load("inspect").__name__ == "InspectTask"  # type: ignore[attr-defined]
