"""The loop of a model that calls tools or takes turns: results, errors, limits, a full context."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from skillopt.aio import within
from skillopt.core.abilities import Responder, call_tool, images_of, takes_empty, tools_of
from skillopt.core.chat import Image, Message, Model, Reply, Request, Tool, ToolCall, Usage
from skillopt.core.episode import EpisodeLimits, NextTurn, ReachedLimit, ToolResult
from skillopt.core.ports import Episode
from skillopt.core.rollout import Trajectory
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate
from skillopt.errors import (
    EnvironmentFault,
    NoTools,
    RolloutError,
    SkilloptError,
    TooLong,
    attributed_to,
)
from skillopt.harness.text_tools import JSON_CALLS, CallFormat, TextTools

MAX_TURNS: Final = 30
"""Requests of one attempt with tools, unless the episode has a limit of its own."""
_SHORT: Final = 600
"""Characters that are left of a result where there is no room for all of it."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, and what a call of it does. Whatever that raises is told to the model.

    An `EnvironmentFault` ends the attempt without a score.
    """

    tool: Tool
    run: Callable[[ToolCall], Awaitable[ToolResult]]


def tools_of_episode(episode: Episode) -> list[OfferedTool]:
    async def run(call: ToolCall) -> ToolResult:
        return await call_tool(episode, call)

    return [OfferedTool(tool, run) for tool in tools_of(episode)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoop:
    """Asks a model, and again after each turn with calls of tools or an answer to its reply.

    The last turn allows no calls. Calls of one turn are answered in their order, one at a time. A
    model that does not know tools is told in words how to call them.
    """

    model: Model
    limits: EpisodeLimits
    turns: int = MAX_TURNS
    """At most, unless the episode has a limit of its own."""
    context_tokens: int = 0
    """Above this, by estimate, old results are shortened; 0: when the model refuses."""
    form: CallFormat | None = None
    """How tools are called in words; None: by the API, and in words if the model has no tools."""
    answer: Callable[[str], str] = str
    """What of the last reply is the answer."""
    respond: Responder | None = None
    """What is said to a reply without calls; None: such a reply ends the attempt."""
    clock: Callable[[], float] = time.monotonic

    async def run(self, request: Request, tools: Sequence[OfferedTool]) -> Trajectory:
        """Make the attempt that this request begins."""
        if tools:
            request = replace(request, tools=tuple(offered.tool for offered in tools))
        end = None if self.limits.seconds is None else self.clock() + self.limits.seconds
        last_turn = (self.limits.turns or self.turns) if tools or self.respond else 1
        talk = _Conversation(self.model, request, self.context_tokens)
        if self.form is not None and tools:
            talk.speak(self.form)
        usage, turn, said = Usage(), 0, ""
        reached: ReachedLimit = ""
        while True:
            turn += 1
            try:
                reply = await talk.ask(final=bool(tools) and turn == last_turn)
            except TooLong:
                if turn == 1:  # it is the task that does not fit
                    raise
                reached, turn = "context", turn - 1
                break
            usage, said = usage + reply.usage, reply.text
            if tools and reply.calls:
                if turn < last_turn:
                    talk.hear(await self._results(tools, reply.calls, end))
            elif (told := await self._response(said, end)) is not None:
                talk.hear([Message("user", told.text)], fresh=told.fresh)
            else:
                break
            if reached := "turns" if turn == last_turn else self._reached(usage, end):
                break
        return Trajectory(
            talk.said(),
            answer=self.answer(said),
            usage=usage,
            turns=turn,
            reached_limit=reached,
        )

    async def _response(self, reply: str, end: float | None) -> NextTurn | None:
        """What is said to a reply; None: the attempt is over."""
        if self.respond is None:
            return None
        left = None if end is None else max(0.0, end - self.clock())
        try:
            with attributed_to(EnvironmentFault, "the answer to a reply"):
                return await within(left, self.respond(reply))
        except TimeoutError:
            return NextTurn("The time of this attempt is over.")

    def _reached(self, usage: Usage, end: float | None) -> ReachedLimit:
        """The limit of tokens or time that allows no further turn."""
        tokens = self.limits.tokens
        if tokens is not None and usage.input + usage.output >= tokens:
            return "tokens"
        return "seconds" if end is not None and self.clock() >= end else ""

    async def _results(
        self, tools: Sequence[OfferedTool], calls: Sequence[ToolCall], end: float | None
    ) -> list[Message]:
        """A message for the result of each call, and one with all images.

        The images come from the user, because not every API takes them from a tool.
        """
        messages: list[Message] = []
        images: list[Image] = []
        for call in calls:
            left = None if end is None else max(0.0, end - self.clock())
            result = await _result(tools, call, left)
            messages.append(Message("tool", result.text, answers=call.id))
            images += result.images
        if images:
            messages.append(Message("user", "Images of the results:", tuple(images)))
        return messages


class _Conversation:
    """What was said, and what of it the model is shown when there is no room for all of it."""

    def __init__(self, model: Model, request: Request, most: int) -> None:
        self._model = model
        self._request = request
        self._whole = list(request.messages)
        self._most = most

    def speak(self, form: CallFormat) -> None:
        self._model = TextTools(self._model, form)

    async def ask(self, *, final: bool) -> Reply:
        """The next reply; `TooLong` if nothing is left to shorten."""
        if final:
            self._request = replace(self._request, tool_choice="none")
        while self._most and _tokens(self._request) > self._most and self._shorten():
            pass
        while True:
            try:
                reply = await self._model.complete(self._request)
                break
            except NoTools:
                if isinstance(self._model, TextTools):
                    raise
                self.speak(JSON_CALLS)
            except TooLong:
                if not self._shorten():
                    raise
        self.hear([reply.message()])
        return reply

    def hear(self, messages: Sequence[Message], *, fresh: bool = False) -> None:
        """Go on with these messages; `fresh`: the model is shown nothing of what was said before.

        What the system says stays.
        """
        self._whole += messages
        before = self._request.messages
        if fresh:
            before = tuple(message for message in before if message.role == "system")
        self._request = replace(self._request, messages=(*before, *messages))

    def said(self) -> tuple[Message, ...]:
        """All of it; without what only the provider needs back with the next request."""
        return tuple(
            replace(message, memo="") if message.memo else message for message in self._whole
        )

    def _shorten(self) -> bool:
        """Shorten the older half of the results that are still long; whether there were any."""
        messages = self._request.messages
        long = [at for at, message in enumerate(messages) if _is_long(message)]
        if not long:
            return False
        chosen = set(long[: (len(long) + 1) // 2])
        self._request = replace(
            self._request,
            messages=tuple(
                replace(message, text=clipped(message.text, _SHORT)) if at in chosen else message
                for at, message in enumerate(messages)
            ),
        )
        return True


def _is_long(message: Message) -> bool:
    return message.role == "tool" and len(message.text) > 2 * _SHORT


def clipped(text: str, most: int) -> str:
    """The beginning and the end of a text that has more than so many characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return (
        f"{text[: most - tail]}\n[... {len(text) - most:,} characters left out ...]\n{text[-tail:]}"
    )


def _tokens(request: Request) -> int:
    words = (
        word
        for message in request.messages
        for word in (message.text, *(call.arguments for call in message.calls))
    )
    return sum(map(estimate, words))


async def _result(
    tools: Sequence[OfferedTool], call: ToolCall, seconds: float | None
) -> ToolResult:
    """What a call gives; a mistake of the model and an exception of the tool are told to it."""
    by_name = {offered.tool.name: offered for offered in tools}
    if call.name not in by_name:
        return _error(f"there is no tool {call.name!r}; the tools are {', '.join(by_name)}")
    if not _is_object(call.arguments):
        return _error("the arguments are not a JSON object")
    try:
        return await within(seconds, _called(by_name[call.name], call))
    except TimeoutError:
        return _error("the time of this attempt is over")


async def _called(offered: OfferedTool, call: ToolCall) -> ToolResult:
    # It runs in a task, and nothing that ends a program may leave a task of its own.
    try:
        return await offered.run(call)
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


def first_request(
    episode: Episode,
    skill: Skill,
    *,
    replicate: int,
    max_tokens: int | None = None,
    instructions: str = "",
) -> Request:
    """The request that an attempt begins with.

    What all tasks share comes first, so that a provider's prefix cache can hold it: the episode's
    instructions, those of the harness, and the skill.
    """
    document = skill.render()
    shared = [text for text in (episode.instructions, instructions) if text.strip()]
    if document.strip():
        shared.append(f"## Skill\n\n{document}")
    system = (Message("system", "\n\n".join(shared)),) if shared else ()
    return Request(
        stage="rollout",
        messages=(*system, Message("user", episode.brief, tuple(images_of(episode)))),
        max_tokens=max_tokens,
        replicate=replicate,
        empty_ok=takes_empty(episode),
    )
