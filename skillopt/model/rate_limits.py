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
from skillopt.model.tokens import estimate_input

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


def _nobody(_: Waiting) -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class CircuitBreaker:
    """Tells when a server is dead, so that no item waits through its own retries to find out."""

    name: str
    clock: Callable[[], float] = time.monotonic
    patience: float = PATIENCE
    tell: Callable[[Waiting], None] = _nobody
    answers: int = 0
    """How often the server has answered, if only with a refusal."""
    _down_since: float | None = None
    """When the first of the calls failed that nobody has had an answer since."""
    _told: bool = False
    _known: bool = False
    """Whether it has ever answered."""
    _missed: int = 0
    _since: float = 0.0
    _until: float = 0.0

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
        self._until = self.clock()
        if self._missed == 0:
            self._since = self._until
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
        silence = self._until - self._since
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
        pulse: CircuitBreaker | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        for limit in (concurrency, requests_per_minute, tokens_per_minute):
            if limit is not None and not limit > 0:
                raise ConfigError(f"endpoint {name}: a limit of {limit} lets nothing through")
        self._slots: AbstractAsyncContextManager[object] = (
            nullcontext() if concurrency is None else asyncio.Semaphore(concurrency)
        )
        self._requests = _pace(requests_per_minute, clock)
        self._tokens = _pace(tokens_per_minute, clock)
        self._sleep = sleep
        self.pulse = CircuitBreaker(name, clock) if pulse is None else pulse

    async def call(self, model: Model, request: Request) -> Reply:
        """Ask the model within the limits; `AccessError` once the server counts as dead."""
        async with self._slots:
            if self._requests is not None or self._tokens is not None:
                await self._turn(request)
            self.pulse.check()
            try:
                reply = await model.complete(request)
            except Unreachable:
                self.pulse.missed()
                self.pulse.check()
                raise
            except Down:
                self.pulse.failed()
                raise
            except ModelError:
                self.pulse.answered()
                raise
            self.pulse.answered()
            if self._tokens is not None:
                self._tokens.settle(_really(reply.usage, estimate_input(request)))
            return reply

    async def _turn(self, request: Request) -> None:
        """Wait for a place in both paces; a caller that goes away gives its place back."""
        tokens = estimate_input(request)
        turns = [
            (pace, units) for pace, units in ((self._requests, 1), (self._tokens, tokens)) if pace
        ]
        wait = max(pace.take(units) for pace, units in turns)
        if wait <= 0:
            return
        try:
            await self._sleep(wait)
        except asyncio.CancelledError:
            for pace, units in turns:
                pace.settle(-units)
            raise


def _pace(per_minute: float | None, clock: Callable[[], float]) -> RateLimiter | None:
    return None if per_minute is None else RateLimiter(per_minute, clock)


def _really(usage: Usage, estimate: int) -> int:
    """Tokens beyond the estimate; none where the server does not count."""
    used = usage.input + usage.output
    return used - estimate if used else 0


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
class ConcurrencyWindow:
    """Calls at a time: as many as come, until the server complains.

    After a complaint, half of those that were under way; with each good answer a little more, one
    for every round of answers. Where the server says when to come back, nobody starts before.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time
    """The time of day, for servers that name one."""
    window: float = float("inf")
    active: int = 0
    _round: int = 0
    """Complaints so far; calls of an earlier round were sent before the last one was heard."""
    _held_until: float = float("-inf")
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Callable[[HttpAnswer], None], None]:
        """Wait for a place; tell what came of it by calling what is given."""
        await self._enter()
        try:
            wait = self._held_until - self.clock()
            if wait > 0:
                await self.sleep(wait)
            round_ = self._round
            yield lambda answer: self._learn(answer, round_)
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


@dataclass(frozen=True, slots=True)
class AdaptiveConcurrency:
    """A transport that asks no faster than the server likes; one per model."""

    inner: Transport
    throttle: ConcurrencyWindow = field(default_factory=ConcurrencyWindow)

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeout: float
    ) -> HttpAnswer:
        """Send when it is this call's turn; waiting does not count against `timeout`."""
        async with self.throttle.turn() as tell:
            answer = await self.inner.post(url, headers=headers, body=body, timeout=timeout)
            tell(answer)
            return answer

    async def get(self, url: str, *, headers: Mapping[str, str], timeout: float) -> HttpAnswer:
        """Fetch at once: not the model is asked, but somebody who vouches for us."""
        return await self.inner.get(url, headers=headers, timeout=timeout)


def seconds_until(reset: str, now: float) -> float | None:
    """What a server calls `6m0s`, `20ms`, `1.5`, or a moment such as `2026-11-16T01:02:03Z`."""
    reset = reset.strip()
    if (found := _DURATION.fullmatch(reset)) and reset:
        hours, minutes, seconds, milliseconds = (float(each or 0) for each in found.groups())
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
