"""Progress of a run in plain lines, for Python and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from skillopt.core.events import Begun, Event, PhaseOpened, Signal, Stepped, Ticked

_PAUSE = 10.0
"""Seconds between two lines about one long phase."""


@dataclass(slots=True)
class Progress:
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
            case _:
                pass

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
