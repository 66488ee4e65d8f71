"""Writes events to the event log and passes them to watchers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, Protocol, TypeVar

from skillopt.core.events import Event, Fact, Note, PhaseClosed, PhaseOpened, Ticked, Timed
from skillopt.core.ports import EventLog, Watcher

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Phase:
    """Work under way, reporting each unit that is done."""

    sink: EventSink
    move: str
    name: str
    start: float
    over: bool = False

    def tick(
        self, how: Literal["done", "reused", "failed"] = "done", score: float | None = None
    ) -> None:
        self.sink.watch(Ticked(self.move, self.name, how, score))

    def finish(self) -> None:
        """All of it is done, although the block that opened it may go on with other things."""
        if not self.over:
            self.over = True
            self.sink.note(Timed(self.move, self.name, _seconds(self.start)))
            self.sink.watch(PhaseClosed(self.move, self.name))


class Clean(Protocol):
    """Takes secrets out of the texts of an event."""

    def __call__(self, event: E, /) -> E: ...


def _unchanged(event: E, /) -> E:
    return event


@dataclass(slots=True)
class MemoryLog:
    """An `EventLog` that is gone with the process."""

    kept: list[Event] = field(default_factory=list[Event])

    def append(self, event: Event) -> None:
        self.kept.append(event)

    def events(self) -> tuple[Event, ...]:
        return tuple(self.kept)


@dataclass(slots=True)
class EventSink:
    """Facts and notes go to the event log and to the watcher, signals to the watcher only.

    Notes wait for the first fact: a start that failed leaves nothing behind.
    """

    record: EventLog
    watch: Watcher
    clean: Clean = _unchanged
    begun: bool = False
    move: str = ""
    entered: float = 0.0
    _waiting: list[Note] = field(default_factory=list[Note])

    def enter(self, move: str) -> None:
        self.move = move
        self.entered = perf_counter()

    def fact(self, fact: Fact) -> None:
        """Write down, durably, that an operation is finished."""
        self.note(Timed(self.move, "total", _seconds(self.entered)))
        self.begun = True
        for note in self._waiting:
            self.record.append(note)
        self._waiting.clear()
        fact = self.clean(fact)
        self.record.append(fact)
        self.watch(fact)

    def note(self, note: Note) -> None:
        """Write down something for readers."""
        note = self.clean(note)
        if self.begun:
            self.record.append(note)
        else:
            self._waiting.append(note)
        self.watch(note)

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Generator[Phase, None, None]:
        """Time a piece of work; only what was finished is noted."""
        phase = Phase(self, self.move, name, perf_counter())
        self.watch(PhaseOpened(phase.move, name, total))
        try:
            yield phase
            phase.finish()
        finally:
            if not phase.over:
                self.watch(PhaseClosed(phase.move, name))


def _seconds(since: float) -> float:
    return round(perf_counter() - since, 3)
