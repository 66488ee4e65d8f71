"""Limits of a server shared by the models behind it: rate, concurrency, and whether it is alive."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from skillopt.core.chat import Model, Reply, Request, Usage
from skillopt.core.events import Waiting
from skillopt.errors import AccessError, ConfigError, ModelError, Unavailable
from skillopt.model.errors import Down, Unreachable, retry_after
from skillopt.model.provider import HttpAnswer, Transport
from skillopt.model.wire import estimate_input

DEAD_CALLS = 20
"""A server that left so many calls in a row unanswered may be given up for all of them."""
PATIENCE = 600.0
"""Seconds that a server which has answered before is waited for when it is down."""
QUIET = 5.0
"""Seconds of an outage before it is told."""
ABSENT_SECONDS = 3.0
"""One that has never answered is given up sooner: nothing is lost yet by looking at the address."""


@dataclass(slots=True)
class RateLimiter:
    """Spreads units evenly: each taker starts once all units taken before it are worked off."""

    per_minute: float
    clock: Callable[[], float]
    _free: float = float("-inf")
    """When the units taken so far are worked off."""

    def take(self, units: float) -> float:
        """Take a turn of this size; the seconds to wait before it."""
        now = self.clock()
        start = max(now, self._free)
        self._free = start + units * 60 / self.per_minute
        return start - now

    def settle(self, units: float) -> None:
        """Correct a turn by units that it really took more, or less."""
        self._free += units * 60 / self.per_minute


@dataclass(slots=True)
class CircuitBreaker:
    """Tells when a server is dead, so that no item waits through its own retries to find out."""

    name: str
    clock: Callable[[], float] = time.monotonic
    patience: float = PATIENCE
    tell: Callable[[Waiting], None] = lambda _: None
    answers: int = 0
    """How often the server has answered, if only with a refusal."""
    _down_since: float | None = None
    """When the first of the calls failed that nobody has had an answer since."""
    _told: bool = False
    _known: bool = False
    """Whether it has ever answered."""
    _missed: int = 0
    _first_missed: float = 0.0
    _last_missed: float = 0.0

    def answered(self) -> None:
        """The server said something, if only no."""
        self._known = True
        self._missed = 0
        self.answers += 1
        if self._told and self._down_since is not None:
            self.tell(Waiting(self.name, self.clock() - self._down_since, over=True))
        self._down_since, self._told = None, False

    def failed(self) -> None:
        """The server said that it cannot answer."""
        self._known = True
        self._missed = 0
        self._fail()

    def missed(self) -> None:
        """A call stayed without an answer."""
        self._last_missed = self.clock()
        if self._missed == 0:
            self._first_missed = self._last_missed
        self._missed += 1
        self._fail()

    def _fail(self) -> None:
        now = self.clock()
        if self._down_since is None:
            self._down_since = now
        elif self._known and not self._told and now - self._down_since >= QUIET:
            self._told = True
            self.tell(Waiting(self.name, now - self._down_since))

    @property
    def waited_for(self) -> bool:
        """Whether the server is down, has answered before, and may yet come back."""
        if not self._known or self._down_since is None:
            return False
        return self.clock() - self._down_since < self.patience

    def check(self) -> None:
        """Refuse once the server counts as dead."""
        silence = self._last_missed - self._first_missed
        calls, seconds = (DEAD_CALLS, self.patience) if self._known else (2, ABSENT_SECONDS)
        if self._missed >= calls and silence >= seconds:
            waited = "; model.outage_seconds sets how long to wait" if self._known else ""
            raise (Unavailable if self._known else AccessError)(
                f"endpoint {self.name} has not answered for {silence:.0f} s ({self._missed} calls "
                "in a row); check base_url and that the server runs, then run the same command "
                f"again: finished work is kept{waited}"
            )


class Endpoint:
    """One per server and key, shared by the models behind it. A limit of None is no limit."""

    def __init__(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        breaker: CircuitBreaker | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        for limit in (concurrency, requests_per_minute, tokens_per_minute):
            if limit is not None and not limit > 0:
                raise ConfigError(f"endpoint {name}: a limit of {limit} lets nothing through")
        self._slots: AbstractAsyncContextManager[object] = (
            nullcontext() if concurrency is None else asyncio.Semaphore(concurrency)
        )
        self._requests, self._tokens = (
            None if rate is None else RateLimiter(rate, clock)
            for rate in (requests_per_minute, tokens_per_minute)
        )
        self._sleep = sleep
        self.breaker = CircuitBreaker(name, clock) if breaker is None else breaker

    async def call(self, model: Model, request: Request) -> Reply:
        """Ask the model within the limits; `AccessError` once the server counts as dead."""
        async with self.turn(estimate_input(request)) as settle:
            reply = await model.complete(request)
            settle(reply.usage)
        return reply

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncGenerator[Callable[[Usage], None], None]:
        """Wait for a turn within the limits, for a call that sends about so many tokens.

        What is given is called with what it took.
        """

        def settle(usage: Usage) -> None:
            used = usage.input + usage.output
            if self._tokens and used:  # 0: the server does not count
                self._tokens.settle(used - tokens)

        async with self._slots:
            if self._requests or self._tokens:
                await self._wait(tokens)
            self.breaker.check()
            try:
                yield settle
            except Unreachable:
                self.breaker.missed()
                self.breaker.check()
                raise
            except Down:
                self.breaker.failed()
                raise
            except ModelError:
                self.breaker.answered()
                raise
            self.breaker.answered()

    async def _wait(self, tokens: int) -> None:
        """Wait for a place in both rates; a caller that goes away gives its place back."""
        taken = ((self._requests, 1), (self._tokens, tokens))
        turns = [(limiter, units) for limiter, units in taken if limiter]
        wait = max(limiter.take(units) for limiter, units in turns)
        if wait <= 0:
            return
        try:
            await self._sleep(wait)
        except asyncio.CancelledError:
            for limiter, units in turns:
                limiter.settle(-units)
            raise


LONGEST_HOLD: Final = 60.0
"""Seconds; a longer wait is the business of each call's own retries."""
_OVERLOADED: Final = {429, 503, 529}
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_COUNTERS: Final = tuple(
    (name.format("remaining"), name.format("reset"))
    for name in (
        "x-ratelimit-{}-requests",
        "x-ratelimit-{}-tokens",
        "anthropic-ratelimit-requests-{}",
        "anthropic-ratelimit-tokens-{}",
        "anthropic-ratelimit-input-tokens-{}",
        "anthropic-ratelimit-output-tokens-{}",
    )
)


@dataclass(slots=True)
class AdaptiveConcurrency:
    """A transport that asks no faster than the server likes; one per model.

    As many calls at a time as come, until the server complains. After a complaint, half of those
    that were under way; with each good answer a little more, one for every round of answers. Where
    the server says when to come back, nobody starts before.
    """

    inner: Transport
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time
    """The time of day, for servers that name one."""
    window: float = float("inf")
    """Calls at a time."""
    active: int = 0
    _round: int = 0
    """Complaints so far; calls of an earlier round were sent before the last one was heard."""
    _held_until: float = float("-inf")
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])

    async def send(
        self, url: str, *, headers: Mapping[str, str], timeout: float, body: bytes | None = None
    ) -> HttpAnswer:
        """Send when it is this call's turn; waiting does not count against `timeout`."""
        if body is None:  # not the model is asked, but somebody who vouches for us
            return await self.inner.send(url, headers=headers, timeout=timeout)
        await self._enter()
        try:
            wait = self._held_until - self.clock()
            if wait > 0:
                await self.sleep(wait)
            round_ = self._round
            answer = await self.inner.send(url, headers=headers, timeout=timeout, body=body)
            self._learn(answer, round_)
            return answer
        finally:
            self.active -= 1
            self._admit()

    async def _enter(self) -> None:
        if not self._waiting and self.active < self.window:
            self.active += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.active -= 1
                self._admit()
            else:
                self._waiting.remove(place)
            raise

    def _admit(self) -> None:
        while self._waiting and self.active < max(1.0, self.window):
            place = self._waiting.popleft()
            if not place.cancelled():
                self.active += 1
                place.set_result(None)

    def _learn(self, answer: HttpAnswer, round_: int) -> None:
        if answer.status in _OVERLOADED:
            if round_ == self._round:
                self._round += 1
                self.window = max(1.0, min(self.window, self.active) / 2)
            self._hold(retry_after(answer.headers))
        elif answer.status == 200 and self.window < float("inf"):
            self.window += 1 / self.window
        self._hold(self._used_up(answer.headers))

    def _hold(self, seconds: float | None) -> None:
        if seconds is not None and seconds <= LONGEST_HOLD:
            self._held_until = max(self._held_until, self.clock() + seconds)

    def _used_up(self, headers: Mapping[str, str]) -> float | None:
        """Seconds until a counter that stands at zero is filled again."""
        waits = [
            wait
            for remaining, reset in _COUNTERS
            if headers.get(remaining) == "0"
            and (wait := seconds_until(headers.get(reset, ""), self.now())) is not None
        ]
        return max(waits, default=None)


def seconds_until(reset: str, now: float) -> float | None:
    """What a server calls `6m0s`, `20ms`, `1.5`, or a moment such as `2026-11-16T01:02:03Z`."""
    reset = reset.strip()
    if (duration := _DURATION.fullmatch(reset)) and reset:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in duration.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    try:
        return max(0.0, float(reset))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(reset.replace("Z", "+00:00"))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - now)
