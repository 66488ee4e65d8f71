"""Progress of a run in plain lines, for Python and notebooks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from skillopt.core.events import Begun, Event, PhaseClosed, PhaseOpened, Signal, Ticked
from skillopt.core.facts import Stepped

_PAUSE = 10.0
"""Seconds between two lines about one long phase."""
QUIET = 30.0
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
class PlainProgress:
    """A watcher that writes a line for each step, and now and then one from within a step."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _last: float = field(init=False)
    _done: dict[tuple[str, str], tuple[int, int]] = field(
        default_factory=dict[tuple[str, str], tuple[int, int]]
    )

    def __post_init__(self) -> None:
        """Silence is counted from now."""
        self._last = self.clock()

    def __call__(self, event: Event | Signal) -> None:
        """Tell what happened, if it is worth a line."""
        match event:
            case Begun(initial):
                self.tell(f"initial skill: {initial.value:.3f} on {initial.evaluation.n} val items")
            case Stepped():
                self.tell(f"step {event.step}: {_outcome(event)}")
            case PhaseOpened(move, phase, total):
                self._done[move, phase] = (0, total)
            case Ticked(move, phase):
                done, total = self._done.get((move, phase), (0, 0))
                self._done[move, phase] = (done + 1, total)
                if self.clock() - self._last >= _PAUSE:
                    self.tell(f"  {phase}: {done + 1} of {total or 'an unknown number'}")
            case PhaseClosed(move, phase):
                self._done.pop((move, phase), None)
            case _:
                pass

    def pulse(self) -> None:
        """After a long silence, say what is under way."""
        silence = self.clock() - self._last
        under_way = list(self._done.items())
        if silence >= QUIET and under_way:
            (_, phase), (done, total) = under_way[-1]
            amount = f"{done} of {total}" if total else f"{done} done"
            self.tell(f"  {phase}: {amount}, still working ({silence:.0f} s without a result)")

    def tell(self, line: str) -> None:
        """Write a line. A stream that was closed does not end a run."""
        self._last = self.clock()
        with suppress(OSError, ValueError):
            self.stream.write(f"{line}\n")
            self.stream.flush()


def _outcome(step: Stepped) -> str:
    if step.decision is None:
        return "no candidate to try"
    value = f"candidate {step.decision.candidate.value:.3f}"
    return f"{value}, {step.action.replace('_', ' ')} ({step.decision.reason})"
