"""The chat harness: one request and one reply, or a loop while the model calls tools."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from skillopt.aio import within
from skillopt.core.abilities import call_tool, images_of, limits_of, tools_of
from skillopt.core.chat import Image, Message, Model, Request, Tool, ToolCall, Usage
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, ReachedLimit, ToolResult
from skillopt.core.ports import Episode, TakesEmpty
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.errors import EnvironmentFault, RolloutError, SkilloptError
from skillopt.harness.base import HarnessContext

MAX_TURNS = 30
"""Requests of one attempt with tools, unless the episode has a limit of its own."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Puts instructions and skill in the system message, brief and images in the user message.

    Whatever text comes back is the answer, even if it is cut at the token limit or a refusal. No
    text at all is an answer only if the episode says so. As long as the model calls tools of the
    episode, it gets their results and is asked again, within the limits of the episode; the last
    turn allows no calls.
    """

    serves: ClassVar[frozenset[EpisodeNeed]] = frozenset(("images", "tools"))

    model: Model
    max_tokens: int | None = None
    """None: what the model's settings say."""
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def create(cls, context: HarnessContext[object]) -> Chat:
        return cls(context.model)

    @property
    def fingerprint(self) -> str:
        """The layout's version, the limit if there is one, and the model."""
        limit = "" if self.max_tokens is None else f"max_tokens={self.max_tokens}/"
        return f"chat/1/{limit}{self.model.fingerprint}"

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Ask once, and again after each turn with calls of tools."""
        tools, limits = tuple(tools_of(episode)), limits_of(episode)
        last_turn = (limits.turns or MAX_TURNS) if tools else 1
        end = None if limits.seconds is None else self.clock() + limits.seconds
        request = Request(
            stage="rollout",
            messages=_messages(episode, skill),
            max_tokens=self.max_tokens,
            replicate=replicate,
            empty_ok=isinstance(episode, TakesEmpty) and episode.empty_ok,
            tools=tools,
        )
        usage, turn = Usage(), 0
        reached: ReachedLimit = ""
        while True:
            turn += 1
            if tools and turn == last_turn:
                request = replace(request, tool_choice="none")
            reply = await self.model.complete(request)
            usage += reply.usage
            request = replace(request, messages=(*request.messages, reply.message()))
            if not tools or not reply.calls:
                break
            if turn == last_turn:
                reached = "turns"
                break
            results = await self._results(episode, tools, reply.calls, end)
            request = replace(request, messages=(*request.messages, *results))
            if reached := self._reached(limits, usage, end):
                break
        # What only the provider needs back with the next request is not a part of the attempt.
        messages = tuple(replace(message, memo="") for message in request.messages)
        return Trajectory(
            messages, answer=reply.text, usage=usage, turns=turn, reached_limit=reached
        )

    def _reached(self, limits: EpisodeLimits, usage: Usage, end: float | None) -> ReachedLimit:
        """The limit of tokens or time that allows no further turn."""
        if limits.tokens is not None and usage.input + usage.output >= limits.tokens:
            return "tokens"
        return "seconds" if end is not None and self.clock() >= end else ""

    async def _results(
        self,
        episode: Episode,
        tools: Sequence[Tool],
        calls: Sequence[ToolCall],
        end: float | None,
    ) -> list[Message]:
        """A message for the result of each call, and one with all images.

        The images come from the user, because not every API takes them from a tool.
        """
        messages: list[Message] = []
        images: list[Image] = []
        for call in calls:
            left = None if end is None else max(0.0, end - self.clock())
            result = await _result(episode, tools, call, left)
            messages.append(Message("tool", result.text, answers=call.id))
            images += result.images
        if images:
            messages.append(Message("user", "Images of the results:", tuple(images)))
        return messages


async def _result(
    episode: Episode, tools: Sequence[Tool], call: ToolCall, seconds: float | None
) -> ToolResult:
    """What a call gives; a mistake of the model and an exception of the tool are told to it."""
    names = [tool.name for tool in tools]
    if call.name not in names:
        return _error(f"there is no tool {call.name!r}; the tools are {', '.join(names)}")
    if not _is_object(call.arguments):
        return _error("the arguments are not a JSON object")

    try:
        return await within(seconds, _called(episode, call))
    except TimeoutError:
        return _error("the time of this attempt is over")


async def _called(episode: Episode, call: ToolCall) -> ToolResult:
    # It runs in a task, and nothing that ends a program may leave a task of its own.
    try:
        return await call_tool(episode, call)
    except (RolloutError, SystemExit) as error:
        raise EnvironmentFault(f"tool {call.name!r}: {type(error).__name__}: {error}") from error
    except SkilloptError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is told to the model
        return _error(f"{type(error).__name__}: {error}")


def _error(what: str) -> ToolResult:
    return ToolResult(f"error: {what}")


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _messages(episode: Episode, skill: Skill) -> tuple[Message, ...]:
    """What all tasks share comes first, so that a provider's prefix cache can hold it."""
    document = skill.render()
    shared = [episode.instructions] if episode.instructions.strip() else []
    if document.strip():
        shared.append(f"## Skill\n\n{document}")
    system = (Message("system", "\n\n".join(shared)),) if shared else ()
    return (*system, Message("user", episode.brief, tuple(images_of(episode))))
