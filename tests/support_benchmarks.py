"""Trainings of benchmark environments with scripted models; real samples where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from support import analysis

from skillopt.api import Result, train_async
from skillopt.core.chat import Reply, Request, ToolCall
from skillopt.core.ports import Environment, Episode
from skillopt.core.rollout import Score, Trajectory

SAMPLES = Path(__file__).parents[2] / "shared/samples"
RULE = "Work with great care."
"""The rule with which a scripted target does its tasks right."""


def sample(*parts: str) -> Path:
    """A file or folder of the real samples; the test is skipped where they are not."""
    path = SAMPLES.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the real sample {'/'.join(parts)} is not on this machine")
    return path


def calling(name: str, arguments: str) -> Reply:
    return Reply(text="", calls=(ToolCall("call", name, arguments),), stop="tool")


def results(request: Request) -> list[str]:
    """What the tools have answered so far."""
    return [message.text for message in request.messages if message.role == "tool"]


def knows_the_rule(request: Request) -> bool:
    return RULE in request.messages[0].text


async def answered(environment: Environment, answer: str) -> Score:
    """The score of an answer to the first training task."""
    async with environment.open(environment.tasks("train")[0]) as episode:
        return await scored(episode, answer)


async def scored(episode: Episode, answer: str, files: Mapping[str, bytes] | None = None) -> Score:
    return await episode.score(Trajectory((), answer, files=files or {}))


async def teacher(request: Request) -> str:
    """An optimizer that proposes the rule."""
    return analysis(RULE) if request.stage == "analyst" else "{}"


async def trained(
    name: str,
    rows: Sequence[Mapping[str, object]],
    target: Callable[[Request], object],
    out: Path,
    **settings: object,
) -> Result:
    """Train for two steps: a third of the rows for each split."""
    third = len(rows) // 3
    return await train_async(
        train=rows[:third],
        val=rows[third : 2 * third],
        test=rows[2 * third :],
        target=target,  # pyright: ignore[reportArgumentType]
        optimizer=teacher,
        out=out,
        progress=False,
        settings={
            "env.name": name,
            "train.num_epochs": 1,
            "train.batch_size": max(1, third // 2),
            **{f"env.{key}": value for key, value in settings.items()},
        },
    )
