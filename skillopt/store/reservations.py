"""Running calls, stored before they are sent, so that limits hold if a process is killed.

A row with the maximum cost of a call is inserted before the call is sent, and deleted in the
transaction that stores its reply. A row that is found when the file is opened again belongs to a
process that was killed: its cost is unknown, so it counts at its maximum from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from skillopt.core.chat import Usage
from skillopt.store.ahead import amounts

TABLE: Final = """
CREATE TABLE IF NOT EXISTS reservations (
    id INTEGER PRIMARY KEY, state TEXT NOT NULL, move TEXT NOT NULL, role TEXT NOT NULL,
    stage TEXT NOT NULL, calls INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cached INTEGER NOT NULL, dollars REAL NOT NULL, estimated INTEGER NOT NULL
)
"""
DELETE: Final = "DELETE FROM reservations WHERE id = ?"
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'reservations'"
_INSERT = "INSERT INTO reservations VALUES (NULL,?,?,?,?,?,?,?,?,?,?)"
_PAY = """
UPDATE reservations SET state = 'unkept', calls = ?, input = ?, output = ?, cached = ?,
    dollars = ?, estimated = ? WHERE id = ?
"""
_INTERRUPT = "UPDATE reservations SET state = 'interrupted' WHERE id = ?"
_INTERRUPT_ALL = "UPDATE reservations SET state = 'interrupted' WHERE state = 'open'"
_OPEN = "SELECT 1 FROM reservations WHERE state = 'open' LIMIT 1"
_ANY = "SELECT 1 FROM reservations LIMIT 1"
_SUM = """
SELECT move, role, stage, sum(calls), sum(input), sum(output), sum(cached), sum(dollars),
    sum(estimated)
FROM reservations WHERE state = '{}' GROUP BY move, role, stage
"""
# Set while a reply is made: the calls that were answered for it, retries included.
_ANSWERED: ContextVar[list[CallReservation] | None] = ContextVar("answered", default=None)


@dataclass(slots=True)
class CallReservation:
    """One call; without a row if no limit depends on it."""

    table: ReservationTable
    place: tuple[str, str, str]
    """Move, role and stage."""
    row: int | None
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
            self.table.write(DELETE, (self.row,))

    def interrupted(self) -> None:
        """Nobody knows whether it was answered."""
        if self.row is not None:
            self.table.write(_INTERRUPT, (self.row,))


class ReservationTable:
    """The table `reservations` of a file; in older files there is none."""

    def __init__(
        self,
        write: Callable[[str, tuple[object, ...]], int],
        read: Callable[[str], list[tuple[Any, ...]]],
    ) -> None:
        self.write = write
        self._read = read

    def charge_unfinished(self) -> None:
        """Whatever is open belongs to a process that has died: it counts for good."""
        if self._rows(_OPEN):
            self.write(_INTERRUPT_ALL, ())

    def reserve(self, place: tuple[str, str, str], worst: Usage | None) -> CallReservation:
        """Write down the worst case of a call before it is sent; None: no limit depends on it."""
        row = None if worst is None else self._insert("open", place, worst)
        return CallReservation(self, place, row)

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

    def unkept(self) -> dict[tuple[str, str, str], Usage]:
        """Calls that were paid and whose replies were of no use, by (move, role, stage)."""
        return self._sum("unkept")

    def interrupted(self) -> Usage:
        """Worst cases of the calls that were under way when a process was killed or stopped."""
        return sum(self._sum("interrupted").values(), Usage())

    @property
    def empty(self) -> bool:
        """Whether nothing is written down."""
        return not self._rows(_ANY)

    def _pay(self, call: CallReservation) -> None:
        if call.usage is None:
            return
        if call.row is None:
            self._insert("unkept", call.place, call.usage)
        else:
            self.write(_PAY, (*amounts(call.usage), call.usage.estimated, call.row))

    def _insert(self, state: str, place: tuple[str, str, str], usage: Usage) -> int:
        return self.write(_INSERT, (state, *place, *amounts(usage), usage.estimated))

    def _sum(self, state: str) -> dict[tuple[str, str, str], Usage]:
        return {
            (move, role, stage): Usage(*numbers)
            for move, role, stage, *numbers in self._rows(_SUM.format(state))
        }

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._read(query) if self._read(_IS_THERE) else []
