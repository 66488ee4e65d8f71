"""Shows progress: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from skillopt.cli.facts import line_for
from skillopt.cli.formatting import count, duration, spelt
from skillopt.cli.render import Screen
from skillopt.cli.run_progress import PhaseProgress, RunProgress, outlook
from skillopt.core.events import (
    Event,
    Fact,
    PhaseClosed,
    PhaseOpened,
    Prefetched,
    Signal,
    Ticked,
    Timed,
    Waiting,
)
from skillopt.progress import QUIET, heartbeat

_PAUSE = 10.0
"""Seconds between two lines about one long phase."""


class Display(Protocol):
    """Where gauges are shown."""

    def opened(self, gauge: PhaseProgress, headway: RunProgress | None) -> None:
        """A phase starts."""
        ...

    def moved(self, gauge: PhaseProgress, headway: RunProgress | None) -> None:
        """One more unit is done."""
        ...

    def finished(self, gauge: PhaseProgress, seconds: float) -> None:
        """A phase was brought to its end."""
        ...

    def closed(self, gauge: PhaseProgress) -> None:
        """A phase is over, finished or not."""
        ...

    def waited(self, gauge: PhaseProgress) -> None:
        """Time has passed while this phase is under way."""
        ...


@dataclass(slots=True)
class Reporter:
    """The `Watcher` of the command line."""

    screen: Screen
    display: Display
    headway: RunProgress | None = None
    gauges: dict[tuple[str, str], PhaseProgress] = field(
        default_factory=dict[tuple[str, str], PhaseProgress]
    )

    def follow(self, headway: RunProgress) -> None:
        """From now on, tell how far this is as well."""
        self.headway = headway

    def __call__(self, event: Event | Signal) -> None:
        """Show it. A terminal that went away does not end a run."""
        with suppress(OSError):
            self._take(event)

    def pulse(self) -> None:
        """Time has passed, whatever has happened in it."""
        gauges = list(self.gauges.values())
        if gauges:
            with suppress(OSError):
                self.display.waited(gauges[-1])

    def _take(self, event: Event | Signal) -> None:
        if isinstance(event, Fact) and self.headway is not None:
            self.headway.add(event)
            self.screen.tell(line_for(event, self.headway.steps, self.headway.metric))
        elif self.headway is not None:
            self.headway.add(event)
        match event:
            case PhaseOpened(move, phase, total):
                name = phase if self.headway is None else self.headway.phase(event)
                self.gauges[move, phase] = PhaseProgress(name, total)
                self.display.opened(self.gauges[move, phase], self.headway)
            case Ticked(move, phase) if gauge := self.gauges.get((move, phase)):
                gauge.tick(event)
                self.display.moved(gauge, self.headway)
            case Timed(move, phase, seconds) if gauge := self.gauges.get((move, phase)):
                self.display.finished(gauge, seconds)
            case PhaseClosed(move, phase) if gauge := self.gauges.pop((move, phase), None):
                self.display.closed(gauge)
            case Waiting(server, seconds, over):
                self.screen.tell(_outage(server, seconds, over=over))
            case Prefetched(move, attempts):
                told = f"{count(attempts, 'attempt')} of {spelt(move)}"
                self.screen.tell(f"  {'speculate':<19} {told}")
            case _:
                pass


def _outage(server: str, seconds: float, *, over: bool) -> str:
    if over:
        return f"  {server} answers again after {duration(seconds)}"
    return f"  waiting for the server: {server} is down (waits up to model.outage_seconds)"


@contextmanager
def reporting(screen: Screen) -> Generator[Reporter, None, None]:
    """A watcher that suits the screen."""
    if not screen.live:
        lines = Reporter(screen, Lines(screen))
        with heartbeat(lines.pulse):
            yield lines
        return
    # Imported where it is drawn: most of the time of a short command would go into loading it.
    from skillopt.cli.bars import drawn

    with drawn(screen.err) as bars:
        yield Reporter(screen, bars)


@dataclass(slots=True)
class Lines:
    """One line when a phase ends, and now and then one from within a long phase."""

    screen: Screen
    clock: Callable[[], float] = time.monotonic
    told: float = field(init=False)

    def __post_init__(self) -> None:
        """Silence is counted from now."""
        self.told = self.clock()

    def opened(self, gauge: PhaseProgress, headway: RunProgress | None) -> None:
        """Nothing yet."""

    def moved(self, gauge: PhaseProgress, headway: RunProgress | None) -> None:
        """A line if the last one is a while ago."""
        if self.clock() - self.told >= _PAUSE:
            told = (gauge.remarks, outlook(headway) if headway else "")
            self._line(gauge.name, gauge.amount, "; ".join(part for part in told if part))

    def finished(self, gauge: PhaseProgress, seconds: float) -> None:
        """A line, unless there was nothing to do."""
        if gauge.done:
            self._line(gauge.name, gauge.amount, gauge.remarks, duration(seconds))

    def closed(self, gauge: PhaseProgress) -> None:
        """It was told when it finished."""

    def waited(self, gauge: PhaseProgress) -> None:
        """A line if the last one is a long while ago: work goes on."""
        silence = self.clock() - self.told
        if silence >= QUIET:
            told = f"still working, {duration(silence)} without a result"
            self._line(gauge.name, gauge.amount, told)

    def _line(self, name: str, *parts: str) -> None:
        self.told = self.clock()
        self.screen.tell(f"  {name:<19} {', '.join(part for part in parts if part)}")
