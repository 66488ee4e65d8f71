"""Progress of a run in plain lines: one for each step, and now and then one from within it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from skillopt.core.controls import escaped
from skillopt.core.events import Begun, Event, PhaseClosed, PhaseOpened, Signal, Ticked
from skillopt.core.facts import Stepped

_PAUSE = 10.0
"""Seconds between two lines about one long phase."""
_QUIET = 30.0
"""Seconds without a line after which one says that work goes on."""
_BEAT = 5.0
"""Seconds between two looks at how long it has been quiet."""


@contextmanager
def heartbeat(pulse: Callable[[], None], seconds: float = _BEAT) -> Generator[None, None, None]:
    """Call `pulse` every so many seconds while the block runs, however long one call takes."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(seconds):
            pulse()

    thread = threading.Thread(target=beat, name="skillopt-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass(slots=True)
class PhaseProgress:
    """One phase under way."""

    name: str
    total: int
    """0: not known."""
    done: int = 0
    reused: int = 0
    failed: int = 0
    scores: list[float] = field(default_factory=list[float])

    def tick(self, tick: Ticked) -> None:
        self.done += 1
        self.reused += tick.how == "reused"
        self.failed += tick.how == "failed"
        if tick.score is not None:
            self.scores.append(tick.score)

    @property
    def amount(self) -> str:
        """`12/40`, or `12 done` when the size is not known."""
        return f"{self.done}/{self.total}" if self.total else f"{self.done} done"

    @property
    def remarks(self) -> str:
        """The mean score so far, and what was not plainly done."""
        mean = f"mean {sum(self.scores) / len(self.scores):.2f}" if self.scores else ""
        reused = f"{self.reused} reused" if self.reused else ""
        failed = f"{self.failed} failed" if self.failed else ""
        return ", ".join(filter(None, (mean, reused, failed)))


class PhaseWatcher:
    """Follows the phases of a run; `write` gets a line now and then while one takes long."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._last = clock()
        self._phases: dict[tuple[str, str], PhaseProgress] = {}

    def __call__(self, event: Event | Signal) -> None:
        match event:
            case PhaseOpened(move, name, total):
                self._phases[move, name] = phase = PhaseProgress(self.named(event), total)
                self.opened(phase)
            case Ticked(move, name) if phase := self._phases.get((move, name)):
                phase.tick(event)
                self.moved(phase)
            case PhaseClosed(move, name) if phase := self._phases.pop((move, name), None):
                self.closed(phase)
            case _:
                pass

    def named(self, opened: PhaseOpened) -> str:
        return opened.phase

    def opened(self, phase: PhaseProgress) -> None:
        """Called when a phase starts."""

    @property
    def outlook(self) -> str:
        """What a line tells beside the phase; worked out only for a line."""
        return ""

    def moved(self, phase: PhaseProgress) -> None:
        """Called when one more unit is done: a line if the last one is a while ago."""
        if self._clock() - self._last >= _PAUSE:
            self.line(phase, "; ".join(filter(None, (phase.remarks, self.outlook))))

    def closed(self, phase: PhaseProgress) -> None:
        """Called when a phase is over, finished or not."""

    def pulse(self) -> None:
        """After a long silence, say what is under way."""
        silence, phases = self._clock() - self._last, list(self._phases.values())
        if silence >= _QUIET and phases:
            self.line(phases[-1], f"still working, {silence:.0f} s without a result")

    def line(self, phase: PhaseProgress, *parts: str) -> None:
        self.tell(f"  {phase.name:<19} {', '.join(filter(None, (phase.amount, *parts)))}")

    def tell(self, line: str) -> None:
        self._last = self._clock()
        self._write(line)


class PlainProgress(PhaseWatcher):
    """The progress that the Python API writes to standard error."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        super().__init__(self._write_line, clock)

    def _write_line(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a stream that was closed does not end a run
            self._stream.write(f"{escaped(line)}\n")
            self._stream.flush()

    def __call__(self, event: Event | Signal) -> None:
        match event:
            case Begun(initial):
                self.tell(f"initial skill: {initial.value:.3f} on {initial.evaluation.n} val items")
            case Stepped():
                self.tell(f"step {event.step}: {_outcome(event)}")
            case _:
                super().__call__(event)


def _outcome(step: Stepped) -> str:
    if step.decision is None:
        return "no candidate to try"
    value = f"candidate {step.decision.candidate.value:.3f}"
    return f"{value}, {step.action.replace('_', ' ')} ({step.decision.reason})"
