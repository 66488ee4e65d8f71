"""The chat harness with images and tools, on the real wires of providers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from skillopt.core.chat import Image, Message, Model, Reply, Request, Tool, ToolCall, Usage
from skillopt.core.episode import EpisodeLimits, ToolResult
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.errors import BudgetSpent, EnvironmentFault, ModelError, SkilloptError
from skillopt.harness.chat import Chat
from skillopt.harness.loop import MAX_TURNS
from skillopt.model.anthropic import ClaudeChat
from skillopt.model.http import Http
from skillopt.model.openai import OpenAICompatible
from skillopt.model.provider import ModelSettings
from skillopt.testing.model_server import ModelServer
from skillopt.testing.wires import Call, Say

PNG = Image.of(b"\x89PNG\r\n\x1a\n", "image/png")
MAP = Image.of(b"\x89PNG map", "image/png")
LOOK = Tool("look_up", "Finds the price of a thing.", {"type": "object", "properties": {}})


@dataclass
class Shelf:
    """What is on the picture has a price that only a tool knows."""

    instructions: str = "Answer with a number."
    brief: str = "What does the thing on the picture cost?"
    images: tuple[Image, ...] = (PNG,)
    tools: tuple[Tool, ...] = (LOOK,)
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)
    result: Callable[[ToolCall], str | ToolResult] = lambda _: "3 euros"
    called: list[ToolCall] = field(default_factory=list[ToolCall])

    async def call(self, call: ToolCall) -> str | ToolResult:
        self.called.append(call)
        return self.result(call)

    async def score(self, trajectory: Trajectory) -> Score:
        hit = float(trajectory.answer == "3")
        return Score(hit, hit)


@dataclass
class Acting:
    """Calls tools as long as it is allowed to, and then answers."""

    calls: tuple[ToolCall, ...] = (ToolCall("c", "look_up", "{}"),)
    asked: list[Request] = field(default_factory=list[Request])
    fingerprint: str = "m/1"

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        usage = Usage(1, 10, 5)
        if request.tool_choice == "none" or not request.tools:
            return Reply(text="3", usage=usage)
        return Reply(text="", calls=self.calls, usage=usage, memo="signed")


def wire(name: str, url: str, http: Http) -> Model:
    kind = {"openai": OpenAICompatible, "anthropic": ClaudeChat}[name]
    base = f"{url}/v1" if name == "openai" else url
    settings = ModelSettings(role="target", name="m", base_url=base, api_key="k", max_tokens=100)
    return kind.create(settings, http)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_an_episode_with_an_image_and_a_tool_runs_on_the_wires_of_providers(
    name: str,
) -> None:
    shelf = Shelf(result=lambda _: ToolResult("3 euros", (MAP,)))
    script = [Call("look_up", {"thing": "cup"}), Say("3")]
    async with ModelServer(script) as server, Http() as http:
        model = wire(name, server.url, http)
        trajectory = await Chat(model).run(shelf, Skill.parse("- Look it up."))
    first, second = [each for each in server.requests if each.method == "POST"]
    assert (PNG.data in first.text, first.tools) == (True, ("look_up",))
    assert MAP.data not in first.text
    assert all(each in second.text for each in (PNG.data, MAP.data, "3 euros", "cup"))
    (call,) = shelf.called
    assert (call.name, json.loads(call.arguments)) == ("look_up", {"thing": "cup"})
    assert [each.role for each in trajectory.messages] == [
        *("system", "user", "assistant", "tool", "user", "assistant")
    ]
    assert trajectory.messages[2].calls == (call,)
    assert trajectory.messages[3] == Message("tool", "3 euros", answers=call.id)
    assert (trajectory.answer, trajectory.turns, trajectory.usage.calls) == ("3", 2, 2)
    assert (await shelf.score(trajectory)).passed


async def test_the_last_turn_that_the_episode_allows_has_to_be_the_answer() -> None:
    model, shelf = Acting(), Shelf(limits=EpisodeLimits(turns=3))
    trajectory = await Chat(model).run(shelf, Skill())
    assert [each.tool_choice for each in model.asked] == ["auto", "auto", "none"]
    assert (trajectory.answer, trajectory.turns, trajectory.reached_limit) == ("3", 3, "")


async def test_a_model_that_calls_tools_for_ever_is_ended_by_the_limit_of_turns() -> None:
    @dataclass
    class Stubborn(Acting):
        async def complete(self, request: Request) -> Reply:
            return await Acting.complete(self, replace(request, tool_choice="auto"))

    shelf = Shelf()
    trajectory = await Chat(Stubborn()).run(shelf, Skill())
    assert (trajectory.turns, trajectory.reached_limit) == (MAX_TURNS, "turns")
    assert len(shelf.called) == MAX_TURNS - 1


async def test_no_turn_starts_once_the_tokens_of_the_episode_are_used() -> None:
    model, shelf = Acting(), Shelf(limits=EpisodeLimits(tokens=30))
    trajectory = await Chat(model).run(shelf, Skill())
    assert (len(model.asked), trajectory.reached_limit, trajectory.answer) == (2, "tokens", "")
    assert trajectory.messages[-1].role == "tool"


async def test_no_turn_starts_once_the_time_of_the_episode_is_over() -> None:
    now = 0.0

    def slow(_: ToolCall) -> str:
        nonlocal now
        now += 6
        return "3 euros"

    shelf = Shelf(limits=EpisodeLimits(seconds=10), result=slow)
    trajectory = await Chat(Acting(), clock=lambda: now).run(shelf, Skill())
    assert (len(shelf.called), trajectory.reached_limit) == (2, "seconds")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall("c", "lok_up", "{}"), "there is no tool 'lok_up'; the tools are look_up"),
        (ToolCall("c", "look_up", "[1]"), "the arguments are not a JSON object"),
        (ToolCall("c", "look_up", "{"), "the arguments are not a JSON object"),
        (ToolCall("c", "look_up", '{"thing": "x"}'), "LookupError: no such thing"),
    ],
)
async def test_a_call_that_goes_wrong_is_told_to_the_model(call: ToolCall, told: str) -> None:
    def fails(_: ToolCall) -> str:
        raise LookupError("no such thing")

    model, shelf = Acting((call,)), Shelf(result=fails, limits=EpisodeLimits(turns=2))
    trajectory = await Chat(model).run(shelf, Skill())
    assert model.asked[1].messages[-1] == Message("tool", f"error: {told}", answers="c")
    assert trajectory.answer == "3"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (EnvironmentFault("the shelf fell"), EnvironmentFault),
        (ModelError("no reader"), EnvironmentFault),
        (SystemExit(2), EnvironmentFault),
        (BudgetSpent("nothing is left"), BudgetSpent),
    ],
)
async def test_errors_of_this_package_are_no_results_of_a_tool(
    raised: BaseException, kind: type[SkilloptError]
) -> None:
    def fails(_: ToolCall) -> str:
        raise raised

    with pytest.raises(kind, match=str(raised)):
        await Chat(Acting()).run(Shelf(result=fails), Skill())


async def test_what_a_provider_needs_back_is_sent_and_not_kept() -> None:
    model = Acting()
    trajectory = await Chat(model).run(Shelf(limits=EpisodeLimits(turns=2)), Skill())
    assert model.asked[1].messages[2].memo == "signed"
    assert all(not each.memo for each in trajectory.messages)


@pytest.mark.parametrize("more", [{"turns": 0}, {"seconds": -1.0}, {"tokens": 0}])
def test_a_limit_that_allows_nothing_is_an_error(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="should be above 0"):
        EpisodeLimits(**more)
