from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from support_wire import WireServer, completion, says

from skillopt.aio import map_all
from skillopt.core.chat import Image, Message, Model, Reply, Request, Tool, ToolCall, Usage
from skillopt.errors import AccessError, ModelError
from skillopt.model.budget import Budget, Meter
from skillopt.model.http import Http
from skillopt.model.openai import OpenAICompatible
from skillopt.model.prices import Price
from skillopt.model.provider import ModelSettings
from skillopt.model.rate_limits import Endpoint
from skillopt.model.scripted import Scripted
from skillopt.model.wrappers import Limited, Metered, Recorded, Retrying, RetryPolicy, call_key
from skillopt.testing.contracts.models import check_model
from skillopt.testing.doubles import MemoryCache

ASK = Request(stage="rollout", messages=(Message("user", "Why?"),))


@dataclass
class Time:
    """A clock that moves only when somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Failing:
    """Raises these errors in turn, then answers."""

    errors: list[Exception]
    calls: int = 0
    fingerprint: str = "failing"

    async def complete(self, request: Request) -> Reply:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return Reply(text=request.stage)


def passing(retry_after: float | None = None) -> ModelError:
    return ModelError("busy", retryable=True, retry_after=retry_after)


def retrying(inner: Model, time: Time, draw: float = 1.0, **settings: float) -> Retrying:
    usual = RetryPolicy(sleep=time.sleep, random=lambda: draw)
    return Retrying(inner, replace(usual, **settings))


async def test_waits_double_up_to_a_bound_and_none_follows_the_last_try() -> None:
    time, inner = Time(), Failing([passing() for _ in range(9)])
    with pytest.raises(ModelError, match=r"busy \(gave up after 7 tries\)"):
        await retrying(inner, time, tries=7).complete(ASK)
    assert inner.calls == 7
    assert time.slept == [1, 2, 4, 8, 16, 30]


@given(st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 120))
def test_a_wait_is_never_shorter_than_the_server_asks(draw: float, asked: float | None) -> None:
    time = Time()
    asyncio.run(retrying(Failing([passing(asked)]), time, draw).complete(ASK))
    least = 0.0 if asked is None else asked
    assert least <= time.slept[0] <= least + 1


async def test_an_error_that_will_not_pass_is_raised_at_once_as_it_is() -> None:
    for error in (ModelError("bad request"), AccessError("wrong key")):
        time, inner = Time(), Failing([error])
        with pytest.raises(type(error)) as caught:
            await retrying(inner, time).complete(ASK)
        assert caught.value is error
        assert (inner.calls, time.slept) == (1, [])


async def test_two_layers_of_retries_do_not_multiply() -> None:
    time, inner = Time(), Failing([passing() for _ in range(99)])
    with pytest.raises(ModelError, match="gave up after 3 tries"):
        await retrying(retrying(inner, time, tries=3), time, tries=3).complete(ASK)
    assert inner.calls == 3


async def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    time, inner = Time(), Failing([passing(3600)])
    with pytest.raises(ModelError, match="asks to wait 3600 s"):
        await retrying(inner, time).complete(ASK)
    assert time.slept == []


async def test_retries_reach_a_real_server_as_often_as_they_should() -> None:
    time = Time()
    busy = says({}, 429, {"Retry-After": "2"})
    server = WireServer([busy, says({}, 500), says(completion("at last"))])
    async with server, Http() as http:
        settings = ModelSettings(role="target", name="m", base_url=server.url)
        model = retrying(OpenAICompatible.create(settings, http), time, draw=0.5)
        assert (await model.complete(ASK)).text == "at last"
    assert len(server.seen) == 3
    assert time.slept == [2.75, 1.5]


async def test_no_more_calls_than_allowed_are_at_the_server_at_once() -> None:
    full = asyncio.Event()

    async def wait_for_company(request: web.Request) -> web.StreamResponse:
        if server.active == 3:
            full.set()
        await full.wait()
        return await says(completion())(request)

    server = WireServer([wait_for_company])
    async with server, Http() as http:
        settings = ModelSettings(role="target", name="m", base_url=server.url)
        wire, endpoint = OpenAICompatible.create(settings, http), Endpoint("e", concurrency=3)
        models = [Limited(wire, endpoint), Limited(wire, endpoint)]
        await asyncio.wait_for(
            map_all(lambda n: models[n % 2].complete(ASK), list(range(20))), timeout=20
        )
    assert server.most_active == 3
    assert len(server.seen) == 20


async def test_a_slot_is_free_while_a_call_waits_to_be_retried() -> None:
    endpoint = Endpoint("e", concurrency=1)
    waits = 0

    async def sleep(_: float) -> None:
        nonlocal waits
        waits += 1
        other = await asyncio.wait_for(Limited(Failing([]), endpoint).complete(ASK), timeout=60)
        assert other.text == "rollout"

    first = Retrying(Limited(Failing([passing()]), endpoint), RetryPolicy(sleep=sleep))
    await first.complete(ASK)
    assert waits == 1


async def test_a_cancelled_call_gives_its_slot_back() -> None:
    endpoint, stuck = Endpoint("e", concurrency=1), asyncio.Event()

    async def hang(_: Request) -> str:
        stuck.set()
        await asyncio.Event().wait()
        return ""

    call = asyncio.ensure_future(Limited(Scripted(hang), endpoint).complete(ASK))
    await stuck.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(Limited(Failing([]), endpoint).complete(ASK), timeout=60)


class TestMeter:
    async def test_tokens_and_dollars_add_up_by_role_and_stage(self) -> None:
        meter = Meter.after({("step_1", "target", "rollout"): Usage(2, 10, 1, 0, 0.5)})
        price = Price(input=1.0, output=10.0, cached_input=0.1)
        used = Usage(0, 1_000_000, 100_000, 500_000)
        inner = Scripted(lambda _: Reply(text="t", usage=used, stop="length"))
        reply = await Metered(inner, "target", Budget(meter), price).complete(ASK)
        assert reply == Reply(
            text="t", usage=Usage(1, 1_000_000, 100_000, 500_000, 1.55), stop="length"
        )
        await Metered(inner, "optimizer", Budget(meter)).complete(replace(ASK, stage="merge"))
        assert meter.totals == {
            ("target", "rollout"): Usage(3, 1_000_010, 100_001, 500_000, 2.05),
            ("optimizer", "merge"): Usage(1, 1_000_000, 100_000, 500_000),
        }
        assert meter.total == Usage(4, 2_000_010, 200_001, 1_000_000, 2.05)

    async def test_a_failed_call_costs_nothing(self) -> None:
        meter = Meter()
        with pytest.raises(ModelError):
            await Metered(Failing([passing()]), "target", Budget(meter)).complete(ASK)
        assert meter.totals == {}

    def test_cached_tokens_cost_as_much_as_others_when_no_price_is_known(self) -> None:
        assert Price(input=2.0, output=0.0).cost(Usage(1, 1_000_000, 5, 400_000)) == 2.0
        assert Price(input=2.0, output=0.0, cached_input=0.0).cost(
            Usage(1, 1_000_000, 5, 1_000_000)
        ) == pytest.approx(0.0)


class TestRecorded:
    async def test_the_same_question_is_asked_once_even_by_many_at_a_time(self) -> None:
        inner, work = Failing([]), MemoryCache()
        model = Recorded(inner, "target", work)
        replies = await map_all(model.complete, [ASK] * 10)
        assert inner.calls == 1
        assert replies == [Reply(text="rollout")] * 10
        assert (await Recorded(inner, "target", work).complete(ASK)).text == "rollout"
        assert inner.calls == 1

    async def test_an_error_is_not_kept(self) -> None:
        inner = Failing([ModelError("no")])
        model = Recorded(inner, "target", MemoryCache())
        with pytest.raises(ModelError):
            await model.complete(ASK)
        assert (await model.complete(ASK)).text == "rollout"

    async def test_what_is_kept_is_not_paid_again(self) -> None:
        meter, work = Meter(), MemoryCache()
        work.enter("step_1")
        model = Recorded(Metered(Failing([]), "target", Budget(meter)), "target", work)
        for _ in range(3):
            await model.complete(ASK)
        assert meter.total == Usage(1)
        assert work.spent() == {("step_1", "target", "rollout"): Usage(1)}

    def test_everything_that_may_change_an_answer_changes_the_key(self) -> None:
        others: list[Request] = [
            replace(ASK, stage="merge"),
            replace(ASK, max_tokens=0),
            replace(ASK, temperature=0.0),
            replace(ASK, effort="low"),
            replace(ASK, replicate=1),
            replace(ASK, messages=()),
            replace(ASK, messages=(Message("system", "Why?"),)),
            replace(ASK, messages=(Message("user", "Why? "),)),
            replace(ASK, messages=(Message("user", "Wh"), Message("user", "y?"))),
            replace(ASK, messages=(Message("user", "W"), Message("user", "hy?"))),
        ]
        keys = {call_key("target", "m", each) for each in (ASK, *others)}
        keys |= {call_key("optimizer", "m", ASK), call_key("target", "n", ASK)}
        assert len(keys) == len(others) + 3

    def test_a_key_stays_the_same_in_later_versions(self) -> None:
        assert call_key("target", "m", ASK) == (
            "276c7325182a9f6fe6c202c68ff0a2bda57863cc5e56233fa4d70addd89a80fd"
        )

    def test_whatever_a_request_holds_beyond_text_changes_its_key(self) -> None:
        tool = Tool("look", "Looks.", {"type": "object"})
        said = ASK.messages[0]
        others = [
            replace(ASK, tools=(tool,)),
            replace(ASK, tools=(replace(tool, description="Sees."),)),
            replace(ASK, tools=(tool,), tool_choice="required"),
            replace(ASK, tools=(tool,), tool_choice=tool),
            replace(ASK, schema={"type": "object"}),
            replace(ASK, schema={}),
            replace(ASK, messages=(replace(said, images=(Image("image/png", "AA=="),)),)),
            replace(ASK, messages=(replace(said, images=(Image("image/gif", "AA=="),)),)),
            replace(ASK, messages=(replace(said, calls=(ToolCall("1", "look", "{}"),)),)),
            replace(ASK, messages=(replace(said, answers="1"),)),
            replace(ASK, messages=(replace(said, memo="m"),)),
        ]
        assert len({call_key("target", "m", each) for each in (ASK, *others)}) == len(others) + 1

    @given(st.lists(st.text()), st.lists(st.text()))
    def test_keys_are_equal_exactly_when_the_texts_are(self, a: list[str], b: list[str]) -> None:
        def key(texts: list[str]) -> str:
            messages = tuple(Message("user", text) for text in texts)
            return call_key("target", "m", Request(stage="s", messages=messages))

        assert (key(a) == key(b)) == (a == b)

    def test_half_a_surrogate_pair_has_a_key(self) -> None:
        asked = replace(ASK, messages=(Message("user", "\ud83d"),))
        assert len(call_key("target", "m", asked)) == 64


async def test_metering_leaves_everything_but_the_usage_alone() -> None:
    reply = Reply(
        text="",
        usage=Usage(1, 5, 2, estimated=1),
        stop="tool",
        calls=(ToolCall("1", "look", "{}"),),
        memo="m",
    )
    meter = Meter()
    price = Price(input=1e6, output=0.0)
    metered = Metered(Scripted(lambda _: reply), "target", Budget(meter), price)
    assert await metered.complete(ASK) == replace(reply, usage=replace(reply.usage, dollars=5.0))
    assert meter.total.estimated == 1


WRAPPINGS: list[Callable[[Model], Model]] = [
    Retrying,
    lambda model: Limited(model, Endpoint("e", concurrency=2)),
    lambda model: Metered(model, "target", Budget(Meter()), Price(input=1.0, output=1.0)),
    lambda model: Recorded(model, "target", MemoryCache()),
]


@pytest.mark.parametrize("wrap", WRAPPINGS)
async def test_every_wrapper_is_a_model_with_the_fingerprint_of_what_it_wraps(
    wrap: Callable[[Model], Model],
) -> None:
    model = wrap(Scripted(lambda _: "OK", "inner/1"))
    assert model.fingerprint == "inner/1"
    await check_model(model)
