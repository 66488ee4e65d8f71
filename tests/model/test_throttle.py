from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from skillopt.aio import map_all
from skillopt.model.provider import HttpAnswer
from skillopt.model.rate_limits import AdaptiveConcurrency, seconds_until

GOOD, BUSY = HttpAnswer(200, {}, b""), HttpAnswer(429, {}, b"")


@dataclass
class Clock:
    """Time that moves when somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Server:
    """Answers when it is told to, and counts how many wait at a time."""

    answer: HttpAnswer = GOOD
    active: int = 0
    arrived: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(
        self, url: str, *, headers: Mapping[str, str], timeout: float, body: bytes | None = None
    ) -> HttpAnswer:
        del url, headers, body, timeout
        self.active += 1
        self.arrived += 1
        try:
            await self.gate.wait()
        finally:
            self.active -= 1
        return self.answer


def throttled(server: Server, clock: Clock) -> AdaptiveConcurrency:
    return AdaptiveConcurrency(server, clock=clock, sleep=clock.sleep, now=clock)


async def burst(polite: AdaptiveConcurrency, calls: int) -> None:
    await map_all(lambda _: polite.send("u", headers={}, body=b"", timeout=1.0), list(range(calls)))


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_without_complaints_nobody_waits() -> None:
    server, clock = Server(), Clock()
    polite = throttled(server, clock)
    calls = asyncio.ensure_future(burst(polite, 40))
    await settle()
    assert server.active == 40
    server.gate.set()
    await calls
    assert clock.slept == []
    assert polite.active == 0


async def test_after_complaints_half_as_many_go_at_a_time_and_later_more() -> None:
    server, clock = Server(answer=BUSY), Clock()
    polite = throttled(server, clock)
    calls = asyncio.ensure_future(burst(polite, 16))
    await settle()
    assert server.active == 16
    server.gate.set()
    await calls
    # One round of complaints counts once, however many of its calls complain.
    assert polite.window == 8.0
    server.answer = GOOD
    server.gate.clear()
    calls = asyncio.ensure_future(burst(polite, 40))
    await settle()
    assert server.active == 8
    server.gate.set()
    await calls
    assert polite.window > 11


async def test_at_least_one_call_goes_on() -> None:
    server, clock = Server(answer=BUSY), Clock()
    polite = throttled(server, clock)
    server.gate.set()
    for _ in range(5):
        await burst(polite, 3)
    assert polite.window == 1.0
    assert server.arrived == 15


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (HttpAnswer(429, {"Retry-After": "7"}, b""), 7.0),
        (HttpAnswer(529, {"Retry-After": "7"}, b""), 7.0),
        (
            HttpAnswer(
                200,
                {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6s"},
                b"",
            ),
            6.0,
        ),
        (
            HttpAnswer(
                200,
                {
                    "anthropic-ratelimit-tokens-remaining": "0",
                    "anthropic-ratelimit-tokens-reset": "1970-01-01T00:00:05Z",
                },
                b"",
            ),
            5.0,
        ),
    ],
)
async def test_nobody_starts_before_the_moment_that_the_server_named(
    answer: HttpAnswer, wait: float
) -> None:
    server, clock = Server(answer=answer), Clock()
    polite = throttled(server, clock)
    server.gate.set()
    await burst(polite, 1)
    assert clock.slept == []
    server.answer = GOOD
    await burst(polite, 1)
    assert clock.slept == [wait]
    await burst(polite, 1)
    assert clock.slept == [wait]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6s"},
        {"x-ratelimit-remaining-requests": "0"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2h"},
    ],
)
async def test_a_server_with_room_or_without_a_moment_holds_nobody(
    headers: Mapping[str, str],
) -> None:
    server, clock = Server(answer=HttpAnswer(200, headers, b"")), Clock()
    polite = throttled(server, clock)
    server.gate.set()
    await burst(polite, 1)
    await burst(polite, 1)
    assert clock.slept == []


async def test_a_caller_that_goes_away_while_waiting_takes_no_place() -> None:
    server = Server()
    polite = AdaptiveConcurrency(server, window=1.0)
    one = asyncio.ensure_future(burst(polite, 1))
    await settle()
    two = asyncio.ensure_future(burst(polite, 1))
    three = asyncio.ensure_future(burst(polite, 1))
    await settle()
    two.cancel()
    await settle()
    server.gate.set()
    await one
    await three
    assert polite.active == 0
    assert server.arrived == 2


async def test_a_slow_model_does_not_hold_up_another() -> None:
    slow, quick = Server(answer=BUSY), Server()
    quick.gate.set()
    stuck = asyncio.ensure_future(burst(AdaptiveConcurrency(slow), 4))
    await burst(AdaptiveConcurrency(quick), 4)
    assert slow.active == 4
    slow.gate.set()
    await stuck


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("20ms", 0.02),
        ("1s", 1.0),
        ("1.5", 1.5),
        ("1h2m3s", 3723.0),
        ("1970-01-01T00:01:40Z", 90.0),
        ("1970-01-01T00:00:01+00:00", 0.0),
        ("", None),
        ("soon", None),
    ],
)
def test_a_reset_is_read_in_all_its_forms(text: str, seconds: float | None) -> None:
    assert seconds_until(text, 10.0) == seconds
