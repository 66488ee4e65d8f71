"""Records which speculative attempts were made and which of them were used."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from skillopt.core.chat import Usage
from skillopt.core.rollout import Rollout

TABLE: Final = """
CREATE TABLE IF NOT EXISTS ahead (
    key TEXT PRIMARY KEY, used INTEGER NOT NULL, calls INTEGER NOT NULL, input INTEGER NOT NULL,
    output INTEGER NOT NULL, cached INTEGER NOT NULL, dollars REAL NOT NULL,
    estimated INTEGER NOT NULL
) WITHOUT ROWID
"""
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'ahead'"
_KEEP = "INSERT OR IGNORE INTO ahead VALUES (?,0,?,?,?,?,?,?)"
_USE = "UPDATE ahead SET used = 1 WHERE key = ?"
_UNUSED = "SELECT key FROM ahead WHERE NOT used"
_COUNT = "SELECT count(*) FROM ahead"
_WASTE = """
SELECT count(*), coalesce(sum(calls), 0), coalesce(sum(input), 0), coalesce(sum(output), 0),
    coalesce(sum(cached), 0), coalesce(sum(dollars), 0.0), coalesce(sum(estimated), 0)
FROM ahead WHERE NOT used
"""
# Set within an attempt ahead only, which runs beside the move that its cache has entered. That move
# is not kept here too: it belongs to one cache, and a context outlives a run.
_MOVE: ContextVar[str] = ContextVar("ahead_of", default="")


@dataclass(frozen=True, slots=True)
class PrefetchCount:
    """Attempts made ahead, in numbers."""

    attempts: int = 0
    unused: int = 0
    """Those that nobody has asked for since."""
    waste: Usage = field(default_factory=Usage)
    """What the unused ones took."""


class PrefetchTable:
    """The table `ahead` of a file; in older files there is none."""

    def __init__(
        self,
        write: Callable[[str, tuple[object, ...]], object],
        read: Callable[[str], list[tuple[Any, ...]]],
    ) -> None:
        self._write = write
        self._read = read
        self._unused = {key for (key,) in self._rows(_UNUSED)}

    def keep(self, key: str, rollout: Rollout) -> None:
        """Write down what an attempt took, if it got as far as to take anything."""
        if rollout.trajectory is None:
            return
        used = rollout.trajectory.usage
        self._write(_KEEP, (key, *amounts(used), used.estimated))
        self._unused.add(key)

    def use(self, key: str) -> bool:
        """Somebody asks for it; True when it was made ahead, and nobody did before."""
        if key not in self._unused:
            return False
        self._write(_USE, (key,))
        self._unused.discard(key)
        return True

    def count(self) -> PrefetchCount:
        """All of them."""
        for (attempts,) in self._rows(_COUNT):
            ((unused, *waste),) = self._rows(_WASTE)
            return PrefetchCount(attempts, unused, Usage(*waste))
        return PrefetchCount()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._read(query) if self._read(_IS_THERE) else []


def amounts(used: Usage) -> tuple[int, int, int, int, float]:
    """What was used, as the columns of a row from `calls` to `dollars`."""
    return used.calls, used.input, used.output, used.cached, float(used.dollars)


@contextmanager
def booked_under(move: str) -> Generator[None, None, None]:
    """Calls made in this block, and in no other task, are for this move."""
    token = _MOVE.set(move)
    try:
        yield
    finally:
        _MOVE.reset(token)


def booked() -> str:
    """The move that a call is made ahead of; empty: none."""
    return _MOVE.get()
