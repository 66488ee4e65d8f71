"""What a run has spent, what it may spend, and the promise that it never spends more."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from skillopt.core.chat import Message, Request, Usage
from skillopt.core.ports import Reservation, Reservations
from skillopt.core.tokens import estimate
from skillopt.errors import BudgetSpent


@dataclass(slots=True)
class Meter:
    """What was paid so far, by (role, stage). Starts from earlier totals when a run resumes."""

    totals: dict[tuple[str, str], Usage] = field(default_factory=dict[tuple[str, str], Usage])

    @classmethod
    def after(cls, spent: Mapping[tuple[str, str, str], Usage]) -> Meter:
        """A meter that goes on from what `Work.spent` tells."""
        meter = cls()
        for (_, role, stage), usage in spent.items():
            meter.add(role, stage, usage)
        return meter

    def add(self, role: str, stage: str, usage: Usage) -> None:
        """Count."""
        known = self.totals.get((role, stage))
        self.totals[role, stage] = usage if known is None else known + usage

    @property
    def total(self) -> Usage:
        """All roles and stages together; may be asked for from another thread."""
        return sum(list(self.totals.values()), Usage())


_PER_CALL = 64
_PER_MESSAGE = 16
"""Tokens that a server may put around what it is sent."""
_PER_IMAGE = 6000
"""More than the providers count for a picture of the largest size that they take."""
_KEPT = "Finished work is saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits set by the user; None is no limit."""

    dollars: float | None = None
    tokens: int | None = None
    calls: int | None = None
    minutes: float | None = None
    """Of this process; the other three count over the whole run."""


@dataclass(slots=True)
class Budget:
    """Sets aside the worst case of a call before it starts, and gives back what it did not take.

    A call that does not fit beside those under way waits for them. One that does not fit even
    alone ends the run: at that moment no call is under way, and from then on none starts, so
    nothing that was paid is lost.

    What is set aside is written down before the call is sent. A call whose end nobody has seen,
    because its process was killed or it was cancelled, counts at its worst case from then on.
    """

    meter: Meter
    limits: Limits = field(default_factory=Limits)
    reservations: Reservations | None = None
    """Where they are written down; None: nowhere."""
    clock: Callable[[], float] = time.monotonic
    start: float = field(init=False)
    held: Usage = field(default_factory=Usage)
    """Worst cases of the calls under way."""
    interrupted: Usage = field(init=False)
    """Worst cases of the calls whose end nobody has seen, in all processes of the run."""
    overrun: int = 0
    """The most tokens by which a reply has exceeded what was set aside for it."""
    _limits: tuple[_Limit, ...] = field(init=False)
    _refusal: str | None = None
    """Why a call was refused, which ends the run."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Time runs from now; what earlier processes left open counts."""
        self.start = self.clock()
        self._limits = _limits(self.limits)
        written = self.reservations
        self.interrupted = Usage() if written is None else written.interrupted()

    @asynccontextmanager
    async def hold(self, worst: Usage, role: str, stage: str) -> AsyncGenerator[Hold, None]:
        """Start a call as soon as there is enough for it; `BudgetSpent` when there never will be.

        An answer must be paid before the block ends.
        """
        what = f"{role}, {stage.replace('_', ' ')}"
        while (reason := self._refusal or self._against(worst, what)) is not None:
            if not self.held.calls:
                self._refusal = reason
                raise BudgetSpent(reason)
            await self._freed.wait()
        self.held = self.held + worst
        try:
            reserved = self._reserve(worst, role, stage)
            try:
                yield Hold(worst, role, stage, reserved)
            except Exception:
                if reserved is not None:
                    reserved.failed()
                raise
            except BaseException:
                self.interrupted = self.interrupted + worst
                if reserved is not None:
                    reserved.interrupted()
                raise
        finally:
            self.held = self.held + negative(worst)
            if not self.held.calls:
                self.held = Usage()
            self._freed.set()
            self._freed = asyncio.Event()

    def _reserve(self, worst: Usage, role: str, stage: str) -> Reservation | None:
        if self.reservations is None:
            return None
        return self.reservations.reserve(role, stage, worst if self._limits else None)

    def counted(self, usage: Usage, request: Request, answer: str) -> Usage:
        """What a call took; estimated where the server does not count and a limit depends on it."""
        if tokens(usage) or (self.limits.tokens is None and self.limits.dollars is None):
            return usage
        given = sum(estimate(each.text) for each in request.messages)
        return replace(usage, input=given, output=estimate(answer), estimated=1)

    def pay(self, held: Hold, usage: Usage) -> None:
        """Count what a call took, and remember whether that is more than it could take at most."""
        self.meter.add(held.role, held.stage, usage)
        self.overrun = max(self.overrun, tokens(usage) - tokens(held.worst))
        if held.reserved is not None:
            held.reserved.answered(usage)

    async def charge(self, usage: Usage, *, role: str, stage: str) -> None:
        """Count what was spent outside of `Model.complete`, for instance by an agent program.

        It is written down first. If it exceeds a limit, no further call starts; once the calls
        under way have ended, `BudgetSpent` is raised.
        """
        self.meter.add(role, stage, usage)
        if self.reservations is not None:
            self.reservations.charge(role, stage, usage)
        limit = next((each for each in self._limits if each.of(self._gone) > each.cap), None)
        if limit is None:
            return
        await self._end(f"{self._excess(limit)}. {_advice(limit)}")

    async def check(self) -> None:
        """Raise `BudgetSpent` if a limit is reached, before something starts that will be charged.

        What it will cost is not known then, so nothing is set aside for it.
        """
        limit = next((each for each in self._limits if each.of(self._gone) >= each.cap), None)
        reason = self._refusal or self._time_is_up()
        if limit is not None and reason is None:
            reason = f"limits.{limit.name} is reached: {self._used(limit)}. {_advice(limit)}"
        if reason is not None:
            await self._end(reason)

    async def _end(self, reason: str) -> None:
        """Let no further call start, wait for those under way, and raise."""
        self._refusal = reason
        while self.held.calls:
            await self._freed.wait()
        raise BudgetSpent(reason)

    @property
    def _gone(self) -> Usage:
        """What can no longer be spent."""
        return self.meter.total + self.interrupted

    @property
    def exceeded(self) -> str:
        """The limit that replies longer than allowed have exceeded, and by how much, if so."""
        limit = self._exceeded()
        return "" if limit is None else self._excess(limit)

    def _exceeded(self) -> _Limit | None:
        if not self.overrun:
            return None
        return next((each for each in self._limits if each.of(self._gone) > each.cap), None)

    def _excess(self, limit: _Limit) -> str:
        over = limit.of(self._gone) - limit.cap
        return f"limits.{limit.name} is exceeded by {limit.show(over)}: {self._used(limit)}"

    def _against(self, worst: Usage, what: str) -> str | None:
        """Why this call may not start now, if so."""
        if self._limits:
            after = self._gone + self.held + worst
            for limit in self._limits:
                if limit.of(after) > limit.cap:
                    return self._reached(limit, worst, what)
        return self._time_is_up()

    def _time_is_up(self) -> str | None:
        minutes = self.limits.minutes
        if minutes is not None and self.clock() - self.start >= minutes * 60:
            over = f"limits.minutes is reached: {minutes:g} allowed, the time is up"
            return f"{over}. {_KEPT}; to resume, run the same command again."
        return None

    def _reached(self, limit: _Limit, worst: Usage, what: str) -> str:
        exceeded = self._exceeded()
        if exceeded is not None:
            limit, told = exceeded, self._excess(exceeded)
        else:
            told = f"limits.{limit.name} is reached: {self._used(limit)}"
            if limit.name != "calls":
                most = limit.show(limit.of(worst))
                told += f", and the next call ({what}) may take up to {most}"
        return f"{told}. {_advice(limit)}"

    def _used(self, limit: _Limit) -> str:
        told = f"{limit.show(limit.cap)} allowed, {limit.show(limit.of(self.meter.total))}"
        told += f" were {limit.verb}"
        if self.overrun and limit.name != "calls":
            told += f" (replies took up to {self.overrun:,} tokens more than max_tokens allows)"
        if self.interrupted.calls:
            lost = limit.show(limit.of(self.interrupted))
            told += f", {lost} count as {limit.verb} by calls under way when a process was stopped"
        return told


@dataclass(frozen=True, slots=True)
class Hold:
    """One call for which there is enough."""

    worst: Usage
    role: str
    stage: str
    reserved: Reservation | None


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit on what is counted in usage."""

    name: str
    cap: float
    of: Callable[[Usage], float]
    show: Callable[[float], str]
    verb: str


def _limits(limits: Limits) -> tuple[_Limit, ...]:
    found: list[_Limit] = []
    if limits.calls is not None:
        found.append(_Limit("calls", limits.calls, lambda usage: usage.calls, _whole, "made"))
    if limits.tokens is not None:
        found.append(_Limit("tokens", limits.tokens, tokens, _whole, "used"))
    if limits.dollars is not None:
        found.append(
            _Limit("dollars", limits.dollars, lambda usage: usage.dollars, _money, "spent")
        )
    return tuple(found)


def _advice(limit: _Limit) -> str:
    return f"{_KEPT}; to resume, raise limits.{limit.name} and run the same command again."


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


def _whole(number: float) -> str:
    return f"{number:,.0f}"
