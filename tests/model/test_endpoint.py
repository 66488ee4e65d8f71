from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest

from skillopt.aio import map_all
from skillopt.core.chat import Message, Reply, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError, Unavailable
from skillopt.model.errors import Unreachable
from skillopt.model.rate_limits import CircuitBreaker, Endpoint
from skillopt.model.scripted import Scripted

ASK = Request(stage="rollout", messages=(Message("user", "x" * 400),))


@dataclass
class Time:
    """A clock that stands still; who sleeps is noted and goes on at once."""

    now: float = 0.0
    starts: list[float] = field(default_factory=list[float])

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.starts.append(self.now + seconds)


def unreached(_: Request) -> str:
    raise Unreachable("nobody there")


def overloaded(_: Request) -> str:
    raise ModelError("busy", retryable=True)


DOWN = Scripted(unreached)
UP = Scripted(lambda _: "fine")


async def test_requests_are_spread_evenly_over_a_minute() -> None:
    time = Time()
    endpoint = Endpoint("e", requests_per_minute=120, clock=time.clock, sleep=time.sleep)
    await map_all(lambda _: endpoint.call(UP, ASK), range(5))
    assert time.starts == [0.5, 1.0, 1.5, 2.0]
    time.now = 60.0
    await endpoint.call(UP, ASK)
    assert len(time.starts) == 4


async def test_tokens_are_counted_as_estimated_and_then_as_they_were() -> None:
    time = Time()
    endpoint = Endpoint("e", tokens_per_minute=6000, clock=time.clock, sleep=time.sleep)
    used = Scripted(lambda _: Reply(text="", usage=Usage(1, 150, 250)))
    await endpoint.call(used, ASK)
    await endpoint.call(UP, ASK)
    await endpoint.call(UP, ASK)
    assert time.starts == [4.0, 5.0]


async def test_a_caller_that_goes_away_gives_its_place_back() -> None:
    time, waiting = Time(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        time.starts.append(seconds)
        waiting.set()
        if len(time.starts) == 1:
            await asyncio.Event().wait()

    endpoint = Endpoint("e", requests_per_minute=60, clock=time.clock, sleep=sleep)
    await endpoint.call(UP, ASK)
    call = asyncio.ensure_future(endpoint.call(UP, ASK))
    await waiting.wait()
    call.cancel()
    await asyncio.wait([call])
    await endpoint.call(UP, ASK)
    assert time.starts == [1.0, 1.0]


async def test_a_dead_server_is_given_up_for_everybody() -> None:
    time = Time()
    endpoint = Endpoint("http://h", breaker=CircuitBreaker("http://h", time.clock, 30.0))
    await endpoint.call(UP, ASK)
    for _ in range(19):
        with pytest.raises(Unreachable):
            await endpoint.call(DOWN, ASK)
    time.now = 31.0
    with pytest.raises(Unavailable, match=r"http://h has not answered for 31 s \(20 calls"):
        await endpoint.call(DOWN, ASK)
    with pytest.raises(AccessError):
        await endpoint.call(UP, ASK)


async def test_a_server_that_never_answered_is_given_up_within_seconds() -> None:
    time = Time()
    endpoint = Endpoint("http://h", clock=time.clock)
    with pytest.raises(Unreachable):
        await endpoint.call(DOWN, ASK)
    time.now = 4.0
    with pytest.raises(AccessError, match=r"has not answered for 4 s \(2 calls in a row\)"):
        await endpoint.call(DOWN, ASK)


async def test_many_failures_in_a_short_time_are_not_yet_death() -> None:
    time = Time()
    endpoint = Endpoint("e", clock=time.clock)
    for _ in range(100):
        with pytest.raises(Unreachable):
            await endpoint.call(DOWN, ASK)
    assert (await endpoint.call(UP, ASK)).text == "fine"


@pytest.mark.parametrize("sign", [UP, Scripted(overloaded)])
async def test_any_sign_of_life_starts_the_count_again(sign: Scripted) -> None:
    time = Time()
    endpoint = Endpoint("e", clock=time.clock)
    await endpoint.call(UP, ASK)
    for n in range(60):
        time.now += 10.0
        model = sign if n % 15 == 14 else DOWN
        with nullcontext() if model is UP else pytest.raises(ModelError):
            await endpoint.call(model, ASK)


@pytest.mark.parametrize("limits", [(0, None, None), (None, -1, None), (None, None, 0)])
def test_a_limit_that_lets_nothing_through_is_refused(limits: tuple[int | None, ...]) -> None:
    calls, requests, tokens = limits
    with pytest.raises(ConfigError, match="lets nothing through"):
        Endpoint("e", concurrency=calls, requests_per_minute=requests, tokens_per_minute=tokens)
