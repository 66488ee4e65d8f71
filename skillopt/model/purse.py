"""What a run may spend, and the promise that it never spends more."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from skillopt.core.chat import Message, Request, Usage
from skillopt.core.tokens import estimate
from skillopt.errors import BudgetSpent
from skillopt.model.meter import Meter

_PER_CALL = 64
_PER_MESSAGE = 16
"""Tokens that a server may put around what it is sent."""
_PER_IMAGE = 6000
"""More than the providers count for a picture of the largest size that they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits set by the user; None is no limit."""

    dollars: float | None = None
    tokens: int | None = None
    calls: int | None = None
    minutes: float | None = None
    """Of this process; the other three count over the whole run."""


@dataclass(slots=True)
class Purse:
    """Sets aside the worst case of a call before it starts, and gives back what it did not take.

    A call that does not fit beside those under way waits for them. One that does not fit even
    alone ends the run; at that moment no call is under way, so nothing that was paid is lost.
    """

    meter: Meter
    caps: Caps = field(default_factory=Caps)
    clock: Callable[[], float] = time.monotonic
    start: float = field(init=False)
    held: Usage = field(default_factory=Usage)
    """Worst cases of the calls under way."""
    overrun: int = 0
    """The most tokens by which a reply has exceeded what was set aside for it."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Time runs from now."""
        self.start = self.clock()

    @asynccontextmanager
    async def hold(self, worst: Usage, what: str) -> AsyncGenerator[None, None]:
        """Start a call as soon as there is enough for it; `BudgetSpent` when there never will be.

        The call must be counted by the meter before the block ends.
        """
        while (reason := self._against(worst, what)) is not None:
            if not self.held.calls:
                raise BudgetSpent(reason)
            await self._freed.wait()
        self.held = self.held + worst
        try:
            yield
        finally:
            self.held = self.held + negative(worst)
            if not self.held.calls:
                self.held = Usage()
            self._freed.set()
            self._freed = asyncio.Event()

    def counted(self, usage: Usage, request: Request, answer: str) -> Usage:
        """What a call took; estimated where the server does not count and a limit depends on it."""
        if tokens(usage) or (self.caps.tokens is None and self.caps.dollars is None):
            return usage
        given = sum(estimate(each.text) for each in request.messages)
        return replace(usage, input=given, output=estimate(answer), estimated=1)

    def compare(self, worst: Usage, used: Usage) -> None:
        """Remember whether a call took more than it was said to take at most."""
        self.overrun = max(self.overrun, tokens(used) - tokens(worst))

    @property
    def _why(self) -> str:
        if not self.overrun:
            return ""
        return f" (replies took up to {self.overrun:,} tokens more than max_tokens allows)"

    def _against(self, worst: Usage, what: str) -> str | None:
        """Why this call may not start now, if so."""
        caps, spent = self.caps, self.meter.total
        after = spent + self.held + worst
        if caps.calls is not None and after.calls > caps.calls:
            return _reached("calls", f"{caps.calls:,}", f"{spent.calls:,} were made")
        if caps.tokens is not None and tokens(after) > caps.tokens:
            used = f"{tokens(spent):,} were used{self._why}"
            return _reached("tokens", f"{caps.tokens:,}", used, what, f"{tokens(worst):,}")
        if caps.dollars is not None and after.dollars > caps.dollars:
            used = f"{_money(spent.dollars)} were spent{self._why}"
            return _reached("dollars", _money(caps.dollars), used, what, _money(worst.dollars))
        if caps.minutes is not None and self.clock() - self.start >= caps.minutes * 60:
            return _reached("minutes", f"{caps.minutes:g}", "they are over")
        return None


def worst_case(request: Request, max_tokens: int) -> Usage:
    """The most that a call can take: no tokenizer makes more tokens than a text has bytes."""
    given = sum(map(_most, request.messages)) + _PER_CALL
    for tool in request.tools:
        given += _bytes(tool.name + tool.description) + _PER_MESSAGE
        given += _bytes(json.dumps(dict(tool.parameters)))
    given += 0 if request.schema is None else _bytes(json.dumps(dict(request.schema)))
    asked = max_tokens if request.max_tokens is None else request.max_tokens
    return Usage(1, given, asked)


def _most(message: Message) -> int:
    calls = sum(_bytes(call.name + call.arguments) + _PER_MESSAGE for call in message.calls)
    text = _bytes(message.text) + _bytes(message.memo)
    return text + calls + _PER_IMAGE * len(message.images) + _PER_MESSAGE


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def tokens(usage: Usage) -> int:
    """Both ways together."""
    return usage.input + usage.output


def negative(usage: Usage) -> Usage:
    """What takes a usage back when it is added."""
    return Usage(-usage.calls, -usage.input, -usage.output, -usage.cached, -usage.dollars)


def _money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 0.1 else f"${dollars:.4f}"


def _reached(name: str, cap: str, used: str, what: str = "", most: str = "") -> str:
    needs = f", and the next call ({what}) may take up to {most}" if most else ""
    more = "run" if name == "minutes" else f"raise limits.{name} and run"
    return (
        f"limits.{name} is reached: {cap} allowed, {used}{needs}. "
        f"Everything finished is kept; to go on, {more} the same command again."
    )
