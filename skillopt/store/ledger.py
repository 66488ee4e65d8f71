"""Calls under way and calls made in advance, written down so that limits hold over any kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from skillopt.core.chat import Usage
from skillopt.core.rollout import Rollout

AMOUNTS: Final = (
    "calls INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, "
    "cached INTEGER NOT NULL, dollars REAL NOT NULL, estimated INTEGER NOT NULL"
)
"""The columns of a `Usage`."""
SUMS: Final = (
    "coalesce(sum(calls), 0), coalesce(sum(input), 0), coalesce(sum(output), 0), "
    "coalesce(sum(cached), 0), coalesce(sum(dollars), 0.0), coalesce(sum(estimated), 0)"
)
TABLES: Final = f"""
CREATE TABLE ahead (key TEXT PRIMARY KEY, used INTEGER NOT NULL, {AMOUNTS}) WITHOUT ROWID;
CREATE TABLE reservations (
    id INTEGER PRIMARY KEY, state TEXT NOT NULL, move TEXT NOT NULL, role TEXT NOT NULL,
    stage TEXT NOT NULL, {AMOUNTS}
);
"""
_KEEP = "INSERT OR IGNORE INTO ahead VALUES (?,0,?,?,?,?,?,?)"
_USE = "UPDATE ahead SET used = 1 WHERE key = ?"
_UNUSED = "SELECT key FROM ahead WHERE NOT used"
_COUNT = "SELECT count(*) FROM ahead"
_WASTE = f"SELECT count(*), {SUMS} FROM ahead WHERE NOT used"  # noqa: S608 - fixed text


@dataclass(frozen=True, slots=True)
class AttemptAhead:
    """An attempt that runs beside the move that its cache has entered."""

    move: str = ""
    """That it is made for; empty: it is none of these."""
    certain: bool = True
    """Whether that move needs it whatever is decided."""
    spent: list[Usage] = field(default_factory=list[Usage])
    """What its calls took, whoever was asked."""


# Set within an attempt ahead only. The move that a cache has entered is not kept here too: it
# belongs to one cache, and a context outlives a run.
_AHEAD: ContextVar[AttemptAhead | None] = ContextVar("attempt_ahead", default=None)


@dataclass(frozen=True, slots=True)
class PrefetchCount:
    """Attempts made ahead, in numbers."""

    attempts: int = 0
    unused: int = 0
    """Those that nobody has asked for since."""
    waste: Usage = field(default_factory=Usage)
    """What the unused ones took."""


class PrefetchTable:
    """The table `ahead` of a file."""

    def __init__(
        self,
        write: Callable[[str, tuple[object, ...]], object],
        read: Callable[..., list[tuple[Any, ...]]],
    ) -> None:
        self._write = write
        self._read = read
        self._unused = {key for (key,) in self._read(_UNUSED)}

    def keep(self, key: str, rollout: Rollout, used: Usage) -> None:
        """Write down what an attempt took, if it got as far as to take anything."""
        if rollout.trajectory is None and not used.calls:
            return
        self._write(_KEEP, (key, *amounts(used)))
        self._unused.add(key)

    def use(self, key: str) -> bool:
        """Somebody asks for it; True when it was made ahead, and nobody did before."""
        if key not in self._unused:
            return False
        self._write(_USE, (key,))
        self._unused.discard(key)
        return True

    def count(self) -> PrefetchCount:
        for (attempts,) in self._read(_COUNT):
            ((unused, *waste),) = self._read(_WASTE)
            return PrefetchCount(attempts, unused, Usage(*waste))
        return PrefetchCount()


def amounts(used: Usage) -> tuple[int, int, int, int, float, int]:
    """What was used, as columns of a row."""
    return used.calls, used.input, used.output, used.cached, float(used.dollars), used.estimated


@contextmanager
def attempt_ahead(move: str, *, certain: bool) -> Generator[AttemptAhead, None, None]:
    """Calls made in this block, and in no other task, are for this move; empty: for the current."""
    attempt = AttemptAhead(move, certain)
    token = _AHEAD.set(attempt if move else None)
    try:
        yield attempt
    finally:
        _AHEAD.reset(token)


def spend_ahead(usage: Usage) -> None:
    """This was paid; within an attempt ahead, it belongs to that."""
    attempt = _AHEAD.get()
    if attempt is not None:
        attempt.spent.append(usage)


def booked() -> str:
    """The move that a call is made ahead of; empty: none."""
    attempt = _AHEAD.get()
    return attempt.move if attempt else ""


DELETE_RESERVATION: Final = "DELETE FROM reservations WHERE id = ?"
_INSERT = "INSERT INTO reservations VALUES (NULL,?,?,?,?,?,?,?,?,?,?)"
_PAY = """
UPDATE reservations SET state = 'unkept', calls = ?, input = ?, output = ?, cached = ?,
    dollars = ?, estimated = ? WHERE id = ?
"""
_INTERRUPT = "UPDATE reservations SET state = 'interrupted' WHERE id = ?"
_INTERRUPT_ALL = "UPDATE reservations SET state = 'interrupted' WHERE state = 'open'"
_OPEN = "SELECT 1 FROM reservations WHERE state = 'open' LIMIT 1"
_ANY = "SELECT 1 FROM reservations LIMIT 1"
_SUM = (
    f"SELECT move, role, stage, {SUMS} FROM reservations "  # noqa: S608 - fixed text
    "WHERE state IN (SELECT value FROM json_each(?)) GROUP BY move, role, stage"
)
# Set while a reply is made: the calls that were answered for it, retries included.
_ANSWERED: ContextVar[list[CallReservation] | None] = ContextVar("answered", default=None)


@dataclass(slots=True)
class CallReservation:
    """One call; without a row if no limit depends on it."""

    table: ReservationTable
    place: tuple[str, str, str]
    """Move, role and stage."""
    row: int | None
    worst: Usage
    ahead: AttemptAhead | None
    """The attempt that it is made for, if that is one ahead."""
    usage: Usage | None = None
    """What it took, once it is answered."""

    def answered(self, usage: Usage) -> None:
        """It was paid; the reservation goes when the reply is kept."""
        self.usage = usage
        answered = _ANSWERED.get()
        if answered is not None:
            answered.append(self)

    def failed(self) -> None:
        """Nothing was paid."""
        if self.row is not None:
            self.table.write(DELETE_RESERVATION, (self.row,))

    def interrupted(self) -> None:
        """Nobody knows whether it was answered."""
        if self.row is not None:
            self.table.write(_INTERRUPT, (self.row,))
        elif self.ahead is not None and not self.ahead.certain:
            # Nobody will ask for it again, so this is all that is ever known of it.
            self.table.interrupt(self.place, self.worst)


class ReservationTable:
    """The table `reservations` of a file."""

    def __init__(
        self,
        write: Callable[[str, tuple[object, ...]], int],
        read: Callable[..., list[tuple[Any, ...]]],
    ) -> None:
        self.write = write
        self._read = read

    def charge_unfinished(self) -> None:
        """Whatever is open belongs to a process that has died: it counts for good."""
        if self._read(_OPEN):
            self.write(_INTERRUPT_ALL, ())

    def reserve(
        self, place: tuple[str, str, str], worst: Usage, *, limited: bool
    ) -> CallReservation:
        """Write down the worst case of a call before it is sent, if a limit depends on it."""
        row = self._insert("open", place, worst) if limited else None
        return CallReservation(self, place, row, worst, _AHEAD.get())

    def interrupt(self, place: tuple[str, str, str], worst: Usage) -> None:
        """Write down the worst case of a call that was ended and had not been written down."""
        self._insert("interrupted", place, worst)

    @contextmanager
    def answered(self) -> Generator[list[CallReservation], None, None]:
        """The calls answered in this block; those left in the list were paid and not kept."""
        calls: list[CallReservation] = []
        token = _ANSWERED.set(calls)
        try:
            yield calls
        finally:
            _ANSWERED.reset(token)
            for call in calls:
                self._pay(call)

    def charge(self, place: tuple[str, str, str], usage: Usage) -> None:
        """Write down what was spent outside of a call."""
        self._insert("charged", place, usage)

    def paid(self) -> dict[tuple[str, str, str], Usage]:
        """What was paid without a reply that is kept, by (move, role, stage).

        These are calls whose replies were of no use, and what was spent outside of calls.
        """
        return self._sum("unkept", "charged")

    def interrupted(self) -> Usage:
        """Worst cases of the calls that were under way when a process was killed or stopped."""
        return sum(self._sum("interrupted").values(), Usage())

    @property
    def empty(self) -> bool:
        return not self._read(_ANY)

    def _pay(self, call: CallReservation) -> None:
        if call.usage is None:
            return
        spend_ahead(call.usage)
        if call.row is None:
            self._insert("unkept", call.place, call.usage)
        else:
            self.write(_PAY, (*amounts(call.usage), call.row))

    def _insert(self, state: str, place: tuple[str, str, str], usage: Usage) -> int:
        return self.write(_INSERT, (state, *place, *amounts(usage)))

    def _sum(self, *states: str) -> dict[tuple[str, str, str], Usage]:
        return {
            (move, role, stage): Usage(*numbers)
            for move, role, stage, *numbers in self._read(_SUM, json.dumps(states))
        }
