"""Adapts the rate of calls to the answers of the server."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from skillopt.model.failures import retry_after
from skillopt.model.provider import HttpAnswer, Transport

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
