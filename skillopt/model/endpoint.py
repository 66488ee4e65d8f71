"""What all models of one server share: limits, and whether the server is available."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from skillopt.core.chat import Model, Reply, Request, Usage
from skillopt.core.events import Waiting
from skillopt.errors import AccessError, ConfigError, ModelError, Unavailable
from skillopt.model.failures import Down, Unreachable
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
