from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable

import pytest

from skillopt.aio import map_all
from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError
from skillopt.model.http import Http
from skillopt.model.provider import ModelSettings
from skillopt.model.scripted import PlainCallable, Scripted, from_callable
from skillopt.testing.contracts.models import check_model

ASK = Request(stage="rollout", messages=(Message("system", "Be brief."), Message("user", "Why?")))


def by_prompt(prompt: str) -> str:
    return f"[{prompt}]"


def by_name(request: object) -> str:
    assert isinstance(request, Request)
    return request.stage


def by_annotation(r: Request) -> Reply:
    return Reply(text=r.stage, usage=Usage(1, 2, 3))


async def by_coroutine(prompt: str) -> str:
    await asyncio.sleep(0)
    return prompt.upper()


class Robot:
    def __call__(self, prompt: str) -> str:
        return prompt.lower()

    def method(self, request: Request) -> str:
        return request.stage


class AsyncRobot:
    async def __call__(self, prompt: str) -> str:
        return prompt.lower()


def with_more(prompt: str, mark: str = "!") -> str:
    return prompt + mark


def lazily(prompt: str) -> Awaitable[str]:
    return by_coroutine(prompt)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (by_prompt, "[Be brief.\n\nWhy?]"),
        (by_name, "rollout"),
        (by_annotation, "rollout"),
        (by_coroutine, "BE BRIEF.\n\nWHY?"),
        (Robot(), "be brief.\n\nwhy?"),
        (AsyncRobot(), "be brief.\n\nwhy?"),
        (Robot().method, "rollout"),
        (functools.partial(with_more, mark="?"), "Be brief.\n\nWhy??"),
        (str, "Be brief.\n\nWhy?"),
    ],
)
async def test_any_plain_callable_can_be_a_model(function: PlainCallable, text: str) -> None:
    model = from_callable(function)
    assert (await model.complete(ASK)).text == text
    await check_model(model)


async def test_a_function_may_return_something_to_await() -> None:
    assert (await from_callable(lazily).complete(ASK)).text == "BE BRIEF.\n\nWHY?"


def test_the_fingerprint_names_module_and_function_and_follows_the_code() -> None:
    assert from_callable(by_prompt).fingerprint.startswith(f"scripted:{__name__}.by_prompt/code=")
    assert from_callable(Robot()).fingerprint.startswith(f"scripted:{__name__}.Robot/")
    assert from_callable(Robot().method).name == f"scripted:{__name__}.Robot.method"
    part = functools.partial(with_more, mark="?")
    assert from_callable(part).name == f"scripted:{__name__}.with_more"
    other = functools.partial(with_more, mark="!")
    assert from_callable(part).fingerprint != from_callable(other).fingerprint


async def test_callables_that_block_run_side_by_side() -> None:
    together = threading.Barrier(40, timeout=20)

    def block(_: str) -> str:
        together.wait()
        return "done"

    replies = await map_all(from_callable(block).complete, [ASK] * 40)
    assert {reply.text for reply in replies} == {"done"}


async def test_cancelling_does_not_wait_for_a_callable_that_blocks() -> None:
    entered, leave = threading.Event(), threading.Event()

    def block(_: str) -> str:
        entered.set()
        leave.wait(20)
        return "late"

    call = asyncio.ensure_future(from_callable(block).complete(ASK))
    await asyncio.to_thread(entered.wait, 20)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    leave.set()


@pytest.mark.parametrize(
    ("raised", "seen"), [(ValueError("oh"), ModelError), (SystemExit("oh"), ModelError)]
)
async def test_what_a_callable_raises_in_its_thread_reaches_the_caller(
    raised: BaseException, seen: type[BaseException]
) -> None:
    def fail(_: str) -> str:
        raise raised

    with pytest.raises(seen, match="oh"):
        await from_callable(fail).complete(ASK)


async def test_what_a_callable_raises_is_worth_a_retry() -> None:
    def fail(_: str) -> str:
        raise ValueError("oh")

    with pytest.raises(ModelError, match=r"fail: ValueError: oh$") as caught:
        await from_callable(fail).complete(ASK)
    assert caught.value.retryable


async def test_our_own_errors_pass_unchanged() -> None:
    error = AccessError("no")

    async def fail(_: str) -> str:
        raise error

    with pytest.raises(AccessError) as caught:
        await from_callable(fail).complete(ASK)
    assert caught.value is error


async def test_an_answer_of_another_type_is_an_error_that_names_it() -> None:
    def number(prompt: str) -> str:
        return len(prompt)  # pyright: ignore[reportReturnType]

    with pytest.raises(ModelError, match="number returned int; return a string or a Reply"):
        await from_callable(number).complete(ASK)


def test_a_callable_that_needs_more_arguments_is_refused_at_once() -> None:
    def two(a: str, b: str) -> str:
        return a + b

    def none() -> str:
        return ""

    for function in (two, none):
        with pytest.raises(ConfigError, match="takes one argument"):
            from_callable(function)  # pyright: ignore[reportArgumentType]


async def test_a_config_names_a_callable_by_module_and_function() -> None:
    settings = ModelSettings(role="target", name="textwrap:dedent")
    model = Scripted.create(settings, Http())
    assert model.fingerprint.startswith("scripted:textwrap.dedent/")
    assert (await model.complete(ASK)).text == "Be brief.\n\nWhy?"


@pytest.mark.parametrize(
    "name", ["gpt-5", "nowhere_at_all:f", "textwrap:nothing", ":", "string:digits"]
)
def test_a_name_that_leads_nowhere_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="the target model"):
        Scripted.create(ModelSettings(role="target", name=name), Http())
