"""Lets a solver of Inspect wait for an agent of ours, and scores what comes of it."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from asyncio import Future, Task
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from skillopt.aio import in_task
from skillopt.core.chat import Image, Message, Model, Request, Speaker, Tool, ToolCall
from skillopt.core.rollout import Score, Trajectory
from skillopt.envs.images import media_type
from skillopt.errors import EnvironmentFault, attributed_to

_MODEL: Final = "skillopt/target"
_SHOWN: Final = 500
_ROLES: Final[dict[str, Speaker]] = {"system": "system", "assistant": "assistant"}

# Inspect has types, but it is an extra: whoever checks this package need not have it.


class InspectEpisode:
    """A sample, whose solver has asked the model; the agent answers in its place."""

    instructions = ""

    def __init__(self, inspect: Any, task: Any, sample: Any, judge: Model | None) -> None:  # noqa: ANN401
        self._inspect, self._task, self._sample, self._judge = inspect, task, sample, judge
        loop = asyncio.get_running_loop()
        self._asked: Future[Any] = loop.create_future()
        self._answered: Future[str] = loop.create_future()
        self._solving: Task[Any] | None = None
        self.brief = ""
        self.images: tuple[Image, ...] = ()
        self.tools: tuple[Tool, ...] = ()
        self._definitions: dict[str, Any] = {}

    async def start(self) -> None:
        """Run the solver until it asks the model."""
        self._solving = asyncio.create_task(self._solve())
        await asyncio.wait((self._solving, self._asked), return_when=asyncio.FIRST_COMPLETED)
        if not self._asked.done():
            with attributed_to(EnvironmentFault, "the solver"):
                self._solving.result()
            raise EnvironmentFault("the solver of this task asks no model")
        state = self._asked.result()
        messages = [message for message in state.messages if message.text or message.content]
        self.brief = "\n\n".join(message.text for message in messages if message.text.strip())
        self.images = tuple(image for message in messages for image in _images(message))
        definitions = [self._inspect.tool.ToolDef(tool) for tool in state.tools]
        self._definitions = {each.name: each for each in definitions}
        self.tools = tuple(
            Tool(each.name, each.description, each.parameters.model_dump(exclude_none=True))
            for each in definitions
        )

    async def close(self) -> None:
        if self._solving is not None and not self._solving.done():
            self._solving.cancel()
            with suppress(asyncio.CancelledError):
                await self._solving

    async def call(self, call: ToolCall) -> str:
        """What a tool of the task returns; what it raises is told to the agent."""
        result = await self._definitions[call.name].tool(**json.loads(call.arguments))
        return result if isinstance(result, str) else str(result)

    async def score(self, trajectory: Trajectory) -> Score:
        """By the first scorer of the task; its value is soft, full marks are hard."""
        if not self._answered.done():
            self._answered.set_result(trajectory.answer)
        assert self._solving is not None  # noqa: S101 - it was opened
        with attributed_to(EnvironmentFault, "the solver"):
            state = await asyncio.shield(self._solving)
        with attributed_to(EnvironmentFault, "the scorer"):
            found = await in_task(self._scored(state))
        value = _number(self._inspect, found)
        if not 0 <= value <= 1:  # also what is no number
            raise EnvironmentFault(f"the scorer returned {found.value!r}, which is no share of 1")
        return Score(float(value >= 1), value, self._feedback(found, value))

    async def _scored(self, state: Any) -> Any:  # noqa: ANN401
        if self._judge is not None:
            config = self._inspect.model.GenerateConfig()
            api = _judge_api(self._inspect, self._judge)
            self._inspect.model._model.init_active_model(
                self._inspect.model.Model(api, config), config
            )
        return await self._task.scorer[0](state, self._inspect.scorer.Target(self._sample.target))

    def _feedback(self, found: Any, value: float) -> str:  # noqa: ANN401
        if value >= 1:
            return "correct"
        target = self._inspect.scorer.Target(self._sample.target).text
        answer = found.answer or found.explanation or ""
        fault = "wrong answer" if value == 0 else "partial answer"
        return f"{fault}: expected {target[:_SHOWN]!r}, got {answer[:_SHOWN]!r}"

    async def _solve(self) -> Any:  # noqa: ANN401
        model, sample = self._inspect.model, self._sample
        given = [model.ChatMessageUser(content=sample.input)] if isinstance(
            sample.input, str
        ) else list(sample.input)  # fmt: skip
        state = self._inspect.solver.TaskState(
            model=model.ModelName(_MODEL),
            sample_id=sample.id or 0,
            epoch=1,
            input=sample.input,
            messages=given,
            target=self._inspect.scorer.Target(sample.target),
            choices=sample.choices,
            metadata=dict(sample.metadata or {}),
        )
        for solver in (self._task.setup, self._task.solver):
            if solver is not None:
                state = await solver(state, self._generate)
        return state

    async def _generate(self, state: Any, *_: object, **__: object) -> Any:  # noqa: ANN401
        if self._asked.done():
            raise EnvironmentFault(
                "the solver of this task asks the model several times, which an agent cannot "
                "answer in one attempt; use a solver that calls generate() once"
            )
        self._asked.set_result(state)
        answer = await self._answered
        state.output = self._inspect.model.ModelOutput.from_content(_MODEL, answer)
        state.messages.append(state.output.message)
        return state


def _number(inspect: Any, found: Any) -> float:  # noqa: ANN401
    """The value of a score; of several values, their mean."""
    value: object = found.value
    parts = [value]
    if isinstance(value, dict):
        parts = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        parts = cast("list[object]", value)
    to_float: Callable[[object], float] = inspect.scorer.value_to_float()
    return math.fsum(map(to_float, parts)) / len(parts) if parts else math.nan


def _images(message: Any) -> list[Image]:  # noqa: ANN401
    if isinstance(message.content, str):
        return []
    return [_image(part.image) for part in message.content if part.type == "image"]


def _image(source: str) -> Image:
    if source.startswith("data:"):
        head, _, content = source.partition("base64,")
        return Image(head.removeprefix("data:").rstrip(";"), content)
    if "://" in source:
        raise EnvironmentFault(f"the image {source[:80]} is on the network; nothing is fetched")
    try:
        content = Path(source).read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"the image {source} cannot be read: {error.strerror}") from error
    return Image(media_type(content) or "image/png", base64.b64encode(content).decode())


def _judge_api(inspect: Any, judge: Model) -> Any:  # noqa: ANN401
    """Our judge as a provider of Inspect, for scorers that ask a model."""

    class JudgeApi(inspect.model.ModelAPI):
        async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> Any:  # noqa: A002, ANN401
            del tools, tool_choice, config
            messages = tuple(Message(_ROLES.get(each.role, "user"), each.text) for each in input)
            reply = await judge.complete(Request(stage="judge", messages=messages))
            return inspect.model.ModelOutput.from_content("skillopt/judge", reply.text)

    return inspect.model.modelapi("skillopt")(JudgeApi)("skillopt/judge")
