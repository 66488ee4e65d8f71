"""Shows what happens, as it happens: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from skillopt.cli.facts import line_for
from skillopt.cli.gauges import Course, Gauge
from skillopt.cli.phrases import dollars, duration, short
from skillopt.cli.render import Screen
from skillopt.core.events import (
    Event,
    Fact,
    PhaseClosed,
    PhaseOpened,
    Signal,
    Ticked,
    Timed,
)

_PAUSE = 10.0
"""Seconds between two lines about one long phase."""


class Display(Protocol):
    """Where gauges are shown."""

    def opened(self, gauge: Gauge, course: Course | None) -> None:
        """A phase starts."""
        ...

    def moved(self, gauge: Gauge, course: Course | None) -> None:
        """One more unit is done."""
        ...

    def finished(self, gauge: Gauge, seconds: float) -> None:
        """A phase was brought to its end."""
        ...

    def closed(self, gauge: Gauge) -> None:
        """A phase is over, finished or not."""
        ...


@dataclass(slots=True)
class Reporter:
    """The `Watcher` of the command line."""

    screen: Screen
    display: Display
    course: Course | None = None
    gauges: dict[tuple[str, str], Gauge] = field(default_factory=dict[tuple[str, str], Gauge])

    def follow(self, course: Course) -> None:
        """From now on, tell how far this is as well."""
        self.course = course

    def __call__(self, event: Event | Signal) -> None:
        """Show it. A terminal that went away does not end a run."""
        with suppress(OSError):
            self._take(event)

    def _take(self, event: Event | Signal) -> None:
        if isinstance(event, Fact) and self.course is not None:
            self.screen.tell(line_for(event, self.course.steps))
        if self.course is not None:
            self.course.add(event)
        match event:
            case PhaseOpened(move, phase, total):
                name = phase if self.course is None else self.course.phase(event)
                self.gauges[move, phase] = Gauge(name, total)
                self.display.opened(self.gauges[move, phase], self.course)
            case Ticked(move, phase) if gauge := self.gauges.get((move, phase)):
                gauge.tick(event)
                self.display.moved(gauge, self.course)
            case Timed(move, phase, seconds) if gauge := self.gauges.get((move, phase)):
                self.display.finished(gauge, seconds)
            case PhaseClosed(move, phase) if gauge := self.gauges.pop((move, phase), None):
                self.display.closed(gauge)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class _Margin:
    """Leaves room for the `^C` which a terminal writes after the last bar.

    In the last column it would start a line of its own, which nothing would then remove.
    """

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.inner, options.update(max_width=options.max_width - 3))


class _Narrow(RichProgress):
    def get_renderables(self) -> Iterable[RenderableType]:
        yield _Margin(self.make_tasks_table(self.tasks))


@contextmanager
def reporting(screen: Screen) -> Generator[Reporter, None, None]:
    """A watcher that suits the screen."""
    if not screen.live:
        yield Reporter(screen, Lines(screen))
        return
    bars = _Narrow(
        TextColumn("{task.description:<19}", table_column=Column(no_wrap=True, min_width=19)),
        BarColumn(bar_width=None, table_column=Column(min_width=10, max_width=16)),
        TextColumn("{task.fields[amount]:>7}", table_column=Column(no_wrap=True, min_width=7)),
        TextColumn(
            "{task.fields[remarks]}",
            style="dim",
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
        console=screen.err,
        transient=True,
        expand=True,
    )
    with bars:
        yield Reporter(screen, Bars(bars))


@dataclass(slots=True)
class Lines:
    """One line when a phase ends, and now and then one from within a long phase."""

    screen: Screen
    clock: Callable[[], float] = time.monotonic
    told: float = field(init=False)

    def __post_init__(self) -> None:
        """Silence is counted from now."""
        self.told = self.clock()

    def opened(self, gauge: Gauge, course: Course | None) -> None:
        """Nothing yet."""

    def moved(self, gauge: Gauge, course: Course | None) -> None:
        """A line if the last one is a while ago."""
        if self.clock() - self.told >= _PAUSE:
            outlook = f"; {_outlook(course)}" if course else ""
            self._line(gauge.name, gauge.amount, f"{gauge.remarks}{outlook}")

    def finished(self, gauge: Gauge, seconds: float) -> None:
        """A line, unless there was nothing to do."""
        if gauge.done:
            self._line(gauge.name, gauge.amount, gauge.remarks, duration(seconds))

    def closed(self, gauge: Gauge) -> None:
        """It was told when it finished."""

    def _line(self, name: str, *parts: str) -> None:
        self.told = self.clock()
        self.screen.tell(f"  {name:<19} {', '.join(part for part in parts if part)}")


@dataclass(slots=True)
class Bars:
    """A bar for each phase under way, and one for the whole."""

    bars: RichProgress
    whole: TaskID | None = None
    shown: dict[int, TaskID] = field(default_factory=dict[int, TaskID])

    def opened(self, gauge: Gauge, course: Course | None) -> None:
        """A new bar below the others."""
        if course is not None:
            self._whole(course)
        total = None if gauge.total == 0 else gauge.total
        self.shown[id(gauge)] = self.bars.add_task(
            gauge.name, total=total, amount=gauge.amount, remarks=""
        )

    def moved(self, gauge: Gauge, course: Course | None) -> None:
        """The bars grow."""
        self.bars.update(
            self.shown[id(gauge)],
            completed=gauge.done,
            amount=gauge.amount,
            remarks=gauge.remarks,
        )
        if course is not None:
            self._whole(course)

    def finished(self, gauge: Gauge, seconds: float) -> None:
        """It closes next."""

    def closed(self, gauge: Gauge) -> None:
        """Its bar goes."""
        self.bars.remove_task(self.shown.pop(id(gauge)))

    def _whole(self, course: Course) -> None:
        if self.whole is None:
            self.whole = self.bars.add_task("whole run", total=None, amount="", remarks="")
        self.bars.update(
            self.whole,
            total=course.total,
            completed=course.done,
            amount=f"{course.done / max(course.total, 1):.0%}",
            remarks=_outlook(course),
        )


def _outlook(course: Course) -> str:
    """Scores, cost and time left."""
    state, spent = course.state, course.spent
    best = f"best {state.best.value:.3f}" if state else ""
    left = "" if course.left is None else f"{duration(course.left)} left"
    tokens = f"{short(spent.calls)} calls, {short(spent.input + spent.output)} tokens"
    money = dollars(spent) if spent.dollars else ""
    now = f"now {state.current.value:.3f}" if state and state.current != state.best else ""
    return " · ".join(part for part in (now, best, left, money, tokens) if part)
