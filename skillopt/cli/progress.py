"""Shows what happens, as it happens: bars on a terminal, plain lines elsewhere, a line per fact."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from skillopt.cli.formatting import (
    became,
    candidates_raced,
    count,
    duration,
    edits,
    growth,
    repeats,
    scored,
    spelt,
    train_score,
)
from skillopt.cli.render import Screen
from skillopt.cli.run_progress import SEPARATOR, PhaseProgress, RunProgress, outlook
from skillopt.core.events import (
    Begun,
    Event,
    Fact,
    FinalTested,
    PhaseClosed,
    PhaseOpened,
    Prefetched,
    Signal,
    Ticked,
    Timed,
    Waiting,
)
from skillopt.core.facts import Drafted, EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.gates.compared import Metric
from skillopt.progress import QUIET, heartbeat


def line_for(fact: Fact, steps: int, metric: Metric) -> Text:
    """What happened, in a run of so many steps and by its metric."""
    match fact:
        case Begun(initial):
            return Text(f"initial skill: val {scored(initial.evaluation, metric)}")
        case Stepped():
            return _step(fact, steps)
        case MetaReflected():
            line = Text(f"meta reflect, epoch {fact.epoch}")
            return _tried(line, fact)
        case Pruned():
            return _pruning(fact)
        case EpochClosed():
            return _epoch(fact)
        case FinalTested(initial=initial, best=best):
            first = f"initial skill {metric(initial):.3f}"
            return Text(f"final test: {first}, best skill {scored(best, metric)}")
        case _:
            return Text(spelt(fact.move))


def _step(fact: Stepped, steps: int) -> Text:
    score = train_score(fact)
    line = Text(f"step {fact.step}/{steps}  epoch {fact.epoch}  ")
    line.append("train  n/a" if score is None else f"train {score:.3f}")
    return _tried(line, fact)


def _tried(line: Text, fact: Drafted) -> Text:
    """The edits that were tried, and what the gate made of them."""
    if fact.action != "skip_no_patches":
        line.append(f"  edits {edits(fact)}")
    if several := candidates_raced(fact):
        line.append(f"  {several}")
    if dropped := repeats(fact):
        line.append(f"  {dropped}", style="dim")
    if fact.draft.reminders is not None and fact.draft.reminders.added:
        line.append(f"  reminders {len(fact.draft.reminders.added)}")
    if fact.draft.leading.size is not None:
        line.append(f"  tokens {growth(fact.draft.leading.size)}")
    words, colour = became(fact)
    if fact.decision is not None:
        line.append(f"  val {fact.decision.reason}")
    line.append(f"  {words}", style=colour)
    return line


def _pruning(fact: Pruned) -> Text:
    line = Text(f"prune, epoch {fact.epoch}  rules {len(fact.cut.worths)}")
    if fact.decision is not None:
        line.append(f"  without effect {len(fact.cut.rules)}  val {fact.decision.reason}")
    words, colour = became(fact)
    return line.append(f"  {words}", style=colour)


def _epoch(fact: EpochClosed) -> Text:
    line = Text(f"end of epoch {fact.epoch}")
    if fact.decision is not None:
        words, colour = became(fact)
        line.append(f"; guidance  val {fact.decision.reason}")
        line.append(f"  {words}", style=colour)
    if fact.size is not None and fact.size.too_long:
        line.append("; the guidance would make the skill too long", style="yellow")
    if fact.review.lessons is not None:
        line.append("; meta skill updated")
    for problem in fact.review.problems:
        line.append(f"; {problem}", style="yellow")
    return line


@dataclass(frozen=True, slots=True)
class _Margin:
    """Leaves room for the `^C` which a terminal writes after the last bar.

    In the last column it would start a line of its own, which nothing would then remove.
    """

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.inner, options.update(max_width=options.max_width - 3))


@dataclass(frozen=True, slots=True)
class _Remarks:
    """As many of the parts as there is room for, each of them whole."""

    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(0, cell_len(self.text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = self.text.split(SEPARATOR)
        while parts and cell_len(SEPARATOR.join(parts)) > options.max_width:
            parts.pop()
        yield Text(SEPARATOR.join(parts), style="dim", no_wrap=True)


class _RemarksColumn(ProgressColumn):
    def render(self, task: Task) -> RenderableType:
        return _Remarks(str(task.fields["remarks"]))


class _Narrow(RichProgress):
    def get_renderables(self) -> Iterable[RenderableType]:
        yield _Margin(self.make_tasks_table(self.tasks))


@dataclass(slots=True)
class Bars:
    """A bar for each phase under way, and one for the whole."""

    bars: RichProgress
    whole: TaskID | None = None
    shown: dict[int, TaskID] = field(default_factory=dict[int, TaskID])

    def opened(self, gauge: PhaseProgress, headway: RunProgress | None) -> None:
        """A new bar below the others."""
        if headway is not None:
            self._whole(headway)
        total = None if gauge.total == 0 else gauge.total
        self.shown[id(gauge)] = self.bars.add_task(
            gauge.name, total=total, amount=gauge.amount, remarks=""
        )

    def moved(self, gauge: PhaseProgress, headway: RunProgress | None) -> None:
        """The bars grow."""
        self.bars.update(
            self.shown[id(gauge)],
            completed=gauge.done,
            amount=gauge.amount,
            remarks=gauge.remarks,
        )
        if headway is not None:
            self._whole(headway)

    def finished(self, gauge: PhaseProgress, seconds: float) -> None:
        """It closes next."""

    def closed(self, gauge: PhaseProgress) -> None:
        """Its bar goes."""
        self.bars.remove_task(self.shown.pop(id(gauge)))

    def waited(self, gauge: PhaseProgress) -> None:
        """The spinner turns by itself."""

    def _whole(self, headway: RunProgress) -> None:
        if self.whole is None:
            self.whole = self.bars.add_task("whole run", total=None, amount="", remarks="")
        self.bars.update(
            self.whole,
            total=headway.total,
            completed=headway.done,
            amount=f"{headway.done / max(headway.total, 1):.0%}",
            remarks=outlook(headway),
        )


@contextmanager
def drawn(console: Console) -> Generator[Bars, None, None]:
    """Bars that go when the block ends."""
    bars = _Narrow(
        SpinnerColumn(),
        TextColumn("{task.description:<19}", table_column=Column(no_wrap=True, min_width=19)),
        BarColumn(bar_width=None, table_column=Column(min_width=8, max_width=10)),
        TextColumn("{task.fields[amount]:>7}", table_column=Column(no_wrap=True, min_width=7)),
        _RemarksColumn(table_column=Column(ratio=1)),
        console=console,
        transient=True,
        expand=True,
    )
    with bars:
        yield Bars(bars)


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
    from skillopt.cli.progress import drawn

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
