"""Progress bars on a terminal."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from skillopt.cli.run_progress import SEPARATOR, PhaseProgress, RunProgress, outlook


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
