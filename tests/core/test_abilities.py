"""What a part has is found by looking at it, whichever optional protocols it implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest
from support import Question

from skillopt.core.abilities import (
    call_tool,
    check_served,
    details_of,
    images_of,
    limits_of,
    needs_of,
    refuse_unserved,
    responder_of,
    takes_empty,
    tools_of,
    workspace_of,
)
from skillopt.core.chat import Image, Tool, ToolCall
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, NextTurn, ToolResult, Workspace
from skillopt.core.ports import Episode, Harness
from skillopt.core.rollout import Trajectory
from skillopt.errors import ConfigError

PLAIN = Question("1 + 1", "2")
DONE = Trajectory((), "2")


class Pictured(Question):
    images = (Image("image/png", "AA=="),)


class Tooled(Question):
    tools = (Tool("add", "Adds.", {}),)

    async def call(self, call: ToolCall) -> str | ToolResult:
        image = Image("image/png", "AA==")
        return call.name if call.id == "text" else ToolResult(call.name, (image,))


class Talking(Question):
    async def respond(self, reply: str) -> NextTurn | None:
        return None


class Working(Question):
    workspace = Workspace()


class Everything(Pictured, Tooled, Talking, Working):
    empty_ok = True
    limits = EpisodeLimits(turns=3)

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        return {"said": trajectory.answer}


EVERYTHING = Everything("1 + 1", "2")


@pytest.mark.parametrize(
    ("episode", "needs"),
    [
        (PLAIN, []),
        (Pictured("1 + 1", "2"), ["images"]),
        (Tooled("1 + 1", "2"), ["tools"]),
        (Talking("1 + 1", "2"), ["turns"]),
        (Working("1 + 1", "2"), ["workspace"]),
        (EVERYTHING, ["images", "tools", "turns", "workspace"]),
    ],
)
def test_an_episode_needs_what_it_has_beyond_text(
    episode: Episode, needs: list[EpisodeNeed]
) -> None:
    assert needs_of(episode) == needs


def test_what_an_episode_does_not_say_is_the_usual() -> None:
    assert (takes_empty(PLAIN), takes_empty(EVERYTHING)) == (False, True)
    assert (limits_of(PLAIN), limits_of(EVERYTHING)) == (EpisodeLimits(), EpisodeLimits(turns=3))
    assert (images_of(PLAIN), tools_of(PLAIN)) == ((), ())
    assert (responder_of(PLAIN), workspace_of(PLAIN)) == (None, None)
    assert (images_of(EVERYTHING), tools_of(EVERYTHING)) == (Pictured.images, Tooled.tools)
    assert (responder_of(EVERYTHING), workspace_of(EVERYTHING)) == (
        EVERYTHING.respond,
        Working.workspace,
    )
    assert (details_of(PLAIN, DONE), details_of(EVERYTHING, DONE)) == ({}, {"said": "2"})


async def test_a_tool_may_return_text_or_more_and_an_episode_without_tools_refuses() -> None:
    assert await call_tool(EVERYTHING, ToolCall("text", "add", "{}")) == ToolResult("add")
    pictured = await call_tool(EVERYTHING, ToolCall("image", "add", "{}"))
    assert pictured == ToolResult("add", Pictured.images)
    with pytest.raises(TypeError, match="the episode has no tools"):
        await call_tool(PLAIN, ToolCall("text", "add", "{}"))


@dataclass(frozen=True)
class Looking:
    serves: ClassVar[tuple[EpisodeNeed, ...]] = ("tools", "images")


def harness(made: object) -> Harness:
    return cast("Any", made)


def test_a_harness_that_does_not_serve_what_tasks_need_is_refused_with_what_it_serves() -> None:
    check_served("games", ["images", "tools"], harness(Looking()))
    check_served("games", [], harness(object()))
    with pytest.raises(ConfigError) as refused:
        check_served("games", ["images", "turns", "workspace"], harness(Looking()))
    assert str(refused.value) == (
        "env.harness: tasks of environment 'games' need turns and workspace, but the harness "
        "'Looking' serves text and images, tools; choose another harness"
    )
    with pytest.raises(ConfigError) as refused:
        check_served("games", ["turns"], harness(object()))
    assert str(refused.value) == (
        "env.harness: tasks of environment 'games' need turns, but the harness 'object' serves "
        "text only; choose another harness"
    )
    with pytest.raises(ConfigError) as refused:
        refuse_unserved("games", ["turns"], "chat", (), lambda: ["loop", "agent"])
    assert str(refused.value) == (
        "env.harness: tasks of environment 'games' need turns, but the harness 'chat' serves text "
        "only; choose another harness (agent, loop)"
    )
