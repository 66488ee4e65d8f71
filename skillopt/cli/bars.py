"""Bars on a terminal: one for each phase under way, and one for the whole run."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from skillopt.cli.progress import SEPARATOR, Reporter
from skillopt.cli.render import Screen
from skillopt.progress import PhaseProgress


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


class _Narrow(Progress):
    def get_renderables(self) -> Iterable[RenderableType]:
        yield _Margin(self.make_tasks_table(self.tasks))


class BarReporter(Reporter):
    """A bar for each phase under way, and one for the whole run; a line per fact above them."""

    def __init__(self, screen: Screen, bars: Progress) -> None:
        super().__init__(screen)
        self._bars = bars
        self._whole: TaskID | None = None
        self._shown: dict[int, TaskID] = {}

    def opened(self, phase: PhaseProgress) -> None:
        self._move_whole()
        self._shown[id(phase)] = self._bars.add_task(
            phase.name, total=phase.total or None, amount=phase.amount, remarks=""
        )

    def moved(self, phase: PhaseProgress) -> None:
        bar = self._shown[id(phase)]
        self._bars.update(bar, completed=phase.done, amount=phase.amount, remarks=phase.remarks)
        self._move_whole()

    def finished(self, phase: PhaseProgress, seconds: float) -> None:
        """Its bar goes next."""

    def closed(self, phase: PhaseProgress) -> None:
        self._bars.remove_task(self._shown.pop(id(phase)))

    def _move_whole(self) -> None:
        run = self.run
        if run is None:
            return
        if self._whole is None:
            self._whole = self._bars.add_task("whole run", total=None, amount="", remarks="")
        self._bars.update(
            self._whole,
            total=run.total,
            completed=run.done,
            amount=f"{run.done / max(run.total, 1):.0%}",
            remarks=run.outlook,
        )


@contextmanager
def drawn(screen: Screen) -> Generator[BarReporter, None, None]:
    """Bars that go when the block ends."""
    bars = _Narrow(
        SpinnerColumn(),
        TextColumn("{task.description:<19}", table_column=Column(no_wrap=True, min_width=19)),
        BarColumn(bar_width=None, table_column=Column(min_width=8, max_width=10)),
        TextColumn("{task.fields[amount]:>7}", table_column=Column(no_wrap=True, min_width=7)),
        _RemarksColumn(table_column=Column(ratio=1)),
        console=screen.err,
        transient=True,
        expand=True,
    )
    with bars:
        yield BarReporter(screen, bars)
