"""What a run has spent, what it may spend, and the promise that it never spends more."""

from __future__ import annotations

import asyncio
import json
import operator
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

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
        """A meter that goes on from what `RolloutCache.spent` tells."""
        meter = cls()
        for (_, role, stage), usage in spent.items():
            meter.add(role, stage, usage)
        return meter

    def add(self, role: str, stage: str, usage: Usage) -> None:
        self.totals[role, stage] = self.totals.get((role, stage), Usage()) + usage

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
    kept: Usage = field(default_factory=Usage)
    """What calls must leave for others that come later."""
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
        self._limits = tuple(
            limit._replace(cap=cap)
            for limit in _LIMITS
            if (cap := getattr(self.limits, limit.name)) is not None
        )
        written = self.reservations
        self.interrupted = Usage() if written is None else written.interrupted()

    @asynccontextmanager
    async def hold(
        self, worst: Usage, role: str, stage: str
    ) -> AsyncGenerator[Callable[[Usage], None], None]:
        """Start a call as soon as there is enough for it; `BudgetSpent` when there never will be.

        An answer must be paid, by calling what is given with its usage, before the block ends; or
        else it is recorded apart (`record`), and the reservation goes.
        """
        _check(worst)
        what = f"{role}, {stage.replace('_', ' ')}"
        while (reason := self._refusal or self._against(worst, what)) is not None:
            if not self.held.calls:
                self._refusal = reason if self.kept == Usage() else None
                raise BudgetSpent(reason)
            await self._freed.wait()
        self.held = self.held + worst
        try:
            reserved = self._reserve(worst, role, stage)
            paid = False

            def pay(usage: Usage) -> None:
                nonlocal paid
                paid = True
                self.meter.add(role, stage, usage)
                # Whether that is more than it could take at most.
                self.overrun = max(self.overrun, tokens(usage) - tokens(worst))
                if reserved is not None:
                    reserved.answered(usage)

            try:
                yield pay
                if reserved is not None and not paid:
                    reserved.failed()
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

    @contextmanager
    def keeping(self, usage: Usage) -> Generator[None, None, None]:
        """Calls within this block leave so much for those after it.

        One that would not is refused with `BudgetSpent` when none is under way, as at the limit
        itself; but the run may go on with what was kept.
        """
        before, self.kept = self.kept, self.kept + usage
        try:
            yield
        finally:
            self.kept = before

    def room(self, each: Usage) -> int | None:
        """How often so much can still be spent beside what is kept; None: as often as wanted."""
        gone = self._gone + self.held + self.kept
        rooms = [
            (limit.cap - limit.of(gone)) / cost
            for limit in self._limits
            if (cost := limit.of(each)) > 0
        ]
        return max(0, int(min(rooms))) if rooms else None

    def shortage(self, usage: Usage, what: str) -> str | None:
        """Why so much cannot be spent beside what is kept, if so."""
        limit = self._beyond(self._gone + self.held + self.kept + usage)
        return None if limit is None else self._reached(limit, f", and {what} would take more")

    def never(self, worst: Usage) -> str | None:
        """Why such a call would not fit even if nothing were spent yet, if so."""
        limit = self._beyond(worst)
        if limit is None:
            return None
        most, cap = limit.show(limit.of(worst)), limit.show(limit.cap)
        return f"the call may take up to {most}, and limits.{limit.name} allows {cap} in all"

    def _reserve(self, worst: Usage, role: str, stage: str) -> Reservation | None:
        if self.reservations is None:
            return None
        return self.reservations.reserve(role, stage, worst, limited=bool(self._limits))

    def counted(self, usage: Usage, request: Request, answer: str) -> Usage:
        """What a call took; estimated where the server does not count and a limit depends on it."""
        if tokens(usage) or (self.limits.tokens is None and self.limits.dollars is None):
            return usage
        given = sum(estimate(message.text) for message in request.messages)
        return replace(usage, input=given, output=estimate(answer), estimated=1)

    async def charge(self, usage: Usage, *, role: str, stage: str) -> None:
        """Count what was spent outside of `Model.complete`, for instance by an agent program.

        It is written down first. If it exceeds a limit, no further call starts; once the calls
        under way have ended, `BudgetSpent` is raised.
        """
        self.record(usage, role=role, stage=stage)
        if limit := self._beyond(self._gone):
            await self._end(f"{self._excess(limit)}. {_advice(limit)}")

    def record(self, usage: Usage, *, role: str, stage: str) -> None:
        """Count and write down what was spent, whatever the limits are."""
        self.meter.add(role, stage, usage)
        if self.reservations is not None:
            self.reservations.charge(role, stage, usage)

    async def check(self) -> None:
        """Raise `BudgetSpent` if a limit is reached, before something starts that will be charged.

        What it will cost is not known then, so nothing is set aside for it.
        """
        limit = self._beyond(self._gone, operator.ge)
        reason = self._refusal or self._time_is_up() or (limit and self._reached(limit))
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
        limit = self._beyond(self._gone) if self.overrun else None
        return "" if limit is None else self._excess(limit)

    def _beyond(
        self, usage: Usage, compare: Callable[[float, float], bool] = operator.gt
    ) -> _Limit | None:
        """The first limit that so much usage is beyond."""
        return next((limit for limit in self._limits if compare(limit.of(usage), limit.cap)), None)

    def _against(self, worst: Usage, what: str) -> str | None:
        """Why this call may not start now, if so."""
        needed = self._gone + self.held + self.kept + worst
        limit = self._beyond(needed) if self._limits else None
        if limit is None:
            return self._time_is_up()
        if exceeded := self._beyond(self._gone) if self.overrun else None:
            return f"{self._excess(exceeded)}. {_advice(exceeded)}"
        if limit.name == "calls":
            return self._reached(limit)
        most = limit.show(limit.of(worst))
        return self._reached(limit, f", and the next call ({what}) may take up to {most}")

    def _reached(self, limit: _Limit, more: str = "") -> str:
        return f"limits.{limit.name} is reached: {self._used(limit)}{more}. {_advice(limit)}"

    def _excess(self, limit: _Limit) -> str:
        over = limit.of(self._gone) - limit.cap
        return f"limits.{limit.name} is exceeded by {limit.show(over)}: {self._used(limit)}"

    def _time_is_up(self) -> str | None:
        minutes = self.limits.minutes
        if minutes is not None and self.clock() - self.start >= minutes * 60:
            over = f"limits.minutes is reached: {minutes:g} allowed, the time is up"
            return f"{over}. {_KEPT}; to resume, run the same command again."
        return None

    def _used(self, limit: _Limit) -> str:
        spent = limit.show(limit.of(self.meter.total))
        text = f"{limit.show(limit.cap)} allowed, {spent} were {limit.verb}"
        if self.overrun and limit.name != "calls":
            text += f" (replies took up to {self.overrun:,} tokens more than max_tokens allows)"
        if self.interrupted.calls:
            lost = limit.show(limit.of(self.interrupted))
            text += f", {lost} count as {limit.verb} by calls under way when the run was stopped"
        return text


class _Limit(NamedTuple):
    name: str
    of: Callable[[Usage], float]
    show: Callable[[float], str]
    verb: str
    cap: float = 0.0


def _advice(limit: _Limit) -> str:
    return f"{_KEPT}; to resume, raise limits.{limit.name} and run the same command again."


def _check(worst: Usage) -> None:
    """Refuse a reservation that would give room to others."""
    if not all(part >= 0 for part in (worst.calls, worst.input, worst.output, worst.dollars)):
        raise ValueError(f"a call cannot take less than nothing: {worst}")


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


_LIMITS: Final = (
    _Limit("calls", operator.attrgetter("calls"), _whole, "made"),
    _Limit("tokens", tokens, _whole, "used"),
    _Limit("dollars", operator.attrgetter("dollars"), _money, "spent"),
)
