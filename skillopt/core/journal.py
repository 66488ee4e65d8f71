"""The one way in which things that happen are written down and shown."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from skillopt.core.events import Fact, Note, PhaseClosed, PhaseOpened, Signal, Ticked, Timed
from skillopt.core.ports import Record, Watcher


@dataclass(frozen=True, slots=True)
class Phase:
    """Work under way, reporting each unit that is done."""

    move: str
    name: str
    watch: Watcher

    def tick(
        self, how: Literal["done", "reused", "failed"] = "done", score: float | None = None
    ) -> None:
        """One more unit is done."""
        self.watch(Ticked(self.move, self.name, how, score))


@dataclass(slots=True)
class Journal:
    """Facts and notes go to the record and to the watcher, signals to the watcher only.

    Notes wait for the first fact: a start that failed leaves nothing behind.
    """

    record: Record
    watch: Watcher
    begun: bool = False
    move: str = ""
    _waiting: list[Note] = field(default_factory=list[Note])

    def enter(self, move: str) -> None:
        """What follows belongs to this move."""
        self.move = move

    def fact(self, fact: Fact) -> None:
        """Write down, durably, that a move is closed."""
        self.begun = True
        for note in self._waiting:
            self.record.append(note)
        self._waiting.clear()
        self.record.append(fact)
        self.watch(fact)

    def note(self, note: Note) -> None:
        """Write down something for readers."""
        if self.begun:
            self.record.append(note)
        else:
            self._waiting.append(note)
        self.watch(note)

    def signal(self, signal: Signal) -> None:
        """Show, and forget."""
        self.watch(signal)

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Generator[Phase, None, None]:
        """Time a piece of work; only what was finished is noted."""
        phase = Phase(self.move, name, self.watch)
        self.watch(PhaseOpened(phase.move, name, total))
        start = perf_counter()
        try:
            yield phase
            self.note(Timed(phase.move, name, round(perf_counter() - start, 3)))
        finally:
            self.watch(PhaseClosed(phase.move, name))
