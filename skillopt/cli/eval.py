"""`skillopt eval`: evaluates one skill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from skillopt.api import evaluate_async, load_evaluation, transfer_async
from skillopt.app.transfer import Transfer, TransferCell
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import model_name, paid
from skillopt.cli.render import Screen
from skillopt.cli.running import Command
from skillopt.cli.tables import Table
from skillopt.core.chat import Usage
from skillopt.store.layout import RolloutFolder
from skillopt.store.results import EvaluationReport, SplitScore

_SHOWN = 10
"""Failed items that are listed."""
_GROUPS = 30
"""Groups of tasks that are listed."""
_WIDE = 120
"""Characters of a reason that are shown."""


def evaluate(
    session: Session, skill: Path, split: str, harnesses: Sequence[str], targets: Sequence[str]
) -> None:
    named = {"harness": harnesses, "target_model": targets}
    flags = {flag: names[0] for flag, names in named.items() if names}
    session.given = replace(session.given, flags={**session.given.flags, **flags})
    command = Command(session)
    secrets, config = command.unlock(), command.config()
    result = command.watch(
        lambda watch: evaluate_async(
            skill, config, split=split, watch=watch, progress=False, secrets=secrets
        )
    )
    for warning in result.warnings:
        command.screen.warn(warning)
    show_evaluation(load_evaluation(result.out), command.screen)


def compare(
    session: Session, skill: Path, split: str, harnesses: Sequence[str], targets: Sequence[str]
) -> int:
    """The skill with every combination of harness and model."""
    command = Command(session)
    secrets, config = command.unlock(), command.config()
    transfer = command.watch(
        lambda watch: transfer_async(
            skill,
            config,
            harnesses=harnesses,
            targets=targets,
            split=split,
            watch=watch,
            progress=False,
            secrets=secrets,
        )
    )
    show_transfer(transfer, command.screen)
    return 0 if all(cell.result for cell in transfer.cells) else 1


def show_transfer(transfer: Transfer, screen: Screen) -> None:
    """A row for each model, a column for each harness; then what failed, and the files."""
    columns = transfer.harnesses
    rows = (
        (model_name(target), *(_cell(transfer.cell(harness, target)) for harness in columns))
        for target in transfer.targets
    )
    screen.show(f"{transfer.metric} score with 95 % interval", "")
    screen.show(Table("model", *columns, rows=rows))
    for cell in transfer.cells:
        if cell.result is None:
            screen.show("", f"{cell.harness}, {model_name(cell.target)}: {cell.problem}")
    spent = sum((cell.result.spent for cell in transfer.cells if cell.result), Usage())
    screen.show("", f"cost   {paid(spent)}")
    for cell in transfer.cells:
        if cell.result is not None:
            screen.show(f"files  {cell.result.out}")


def _cell(cell: TransferCell) -> str | Text:
    if cell.score is None or cell.interval is None:
        return Text("failed", style="bold red")
    low, high = cell.interval
    failures = len(cell.result.whole.failures) if cell.result else 0
    without = f", {failures} without score" if failures else ""
    return f"{cell.score:.3f} [{low:.3f}, {high:.3f}]{without}"


def show_evaluation(report: EvaluationReport, screen: Screen) -> None:
    """Scores, the items that failed, and what it was done with."""
    whole = (report.whole,) if len(report.splits) > 1 else ()
    screen.show(_scores(report, "split", (*report.splits, *whole)))
    if report.groups:
        shown = report.groups[:_GROUPS]
        screen.show("", _scores(report, "group", shown))
        if (more := len(report.groups) - _GROUPS) > 0:
            screen.show(f"and {more} more: eval_summary.json")
    if report.failed:
        columns = ("item without full marks", "hard", "reason")
        screen.show("", Table(*columns, right=["hard"], wrap=["reason"], rows=_failed_rows(report)))
        if (more := len(report.failed) - _SHOWN) > 0:
            screen.show(f"and {more} more: {RolloutFolder(report.out).results}")
    data = f"{report.benchmark}, {report.data}" if report.data else report.benchmark
    screen.show("", f"skill  {report.skill}")
    if report.target:
        screen.show(f"model  {model_name(report.target)}")
    if report.benchmark:
        screen.show(f"data   {data}")
    screen.show(f"cost   {paid(report.spent)}", f"files  {report.out}")


def _scores(report: EvaluationReport, title: str, scores: Sequence[SplitScore]) -> Table:
    rounds = report.whole.replicates
    every = [f"passed {rounds} of {rounds}"] if rounds > 1 else []
    others = [metric for metric in ("hard", "soft") if metric != report.metric]
    numbers = (report.metric, *others, *every, "n", "failures")
    table = Table(title, report.metric, "95 % interval", *numbers[1:], right=numbers)
    for split in scores:
        means = {"hard": split.hard, "soft": split.soft}
        table.add_row(
            split.split,
            f"{split.score:.3f}",
            f"[{split.low:.3f}, {split.high:.3f}]",
            *(f"{means[metric]:.3f}" for metric in others),
            *("" if split.passed is None else f"{split.passed:.3f}" for _ in every),
            str(split.n),
            str(split.failures),
        )
    return table


def _failed_rows(report: EvaluationReport) -> Iterator[tuple[str, str | Text, str]]:
    """The first items without full marks, those without a score before the others."""
    for item in report.failed[:_SHOWN]:
        reason = " ".join(item.reason.split())
        yield (
            item.place or item.id,
            Text("no score", style="yellow") if item.hard is None else f"{item.hard:.3f}",
            f"{reason[:_WIDE]} ..." if len(reason) > _WIDE else reason or "not said",
        )
