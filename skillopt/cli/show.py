"""`skillopt show`, `diff` and `runs`: runs, a step, an item, an evaluation, a change of a skill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from skillopt.analysis.report import metric_of
from skillopt.api import (
    DamagedRun,
    OldRun,
    Run,
    describe_run,
    diff_run,
    list_runs,
    load_evaluation,
    open_run,
    rebuild_run,
)
from skillopt.app.step_views import tally_of
from skillopt.cli.arguments import Session
from skillopt.cli.eval import show_evaluation
from skillopt.cli.formatting import dollars, model_name, short, spread
from skillopt.cli.render import Screen
from skillopt.cli.report import best_at, cost, few_val, moves_table, scores, verdict
from skillopt.cli.step import attempts_at, step_story
from skillopt.cli.tables import Table
from skillopt.core.controls import one_line
from skillopt.errors import StoreError
from skillopt.gates.statistics import Interval
from skillopt.store.layout import Layout, RolloutFolder
from skillopt.store.reader import RunReader, Status
from skillopt.store.results import holds_evaluation


def show(run: Path, *, step: int | None, item: str | None, rebuild: bool) -> None:
    """The whole run, one of its steps, or all attempts at one item."""
    screen = Screen()
    if holds_evaluation(run):
        if rebuild or step is not None or item is not None:
            raise StoreError(
                f"{run} holds an evaluation, which has no steps and nothing to rebuild; its "
                f"items are in {RolloutFolder(run).results}"
            )
        report = load_evaluation(run)
        screen.show(Text(str(run), style="bold"), "evaluation", "")
        show_evaluation(report, screen)
        return
    if rebuild:
        _rebuild(run, screen)
        return
    with open_run(run) as reader:
        if step is not None:
            story = list(step_story(reader.step(step)))
            screen.show(*story, *_legend(reader, story))
        elif item is not None:
            by_place = {place: name for name, place in reader.places.items()}
            screen.show(*attempts_at(reader, by_place.get(item, item)))
        else:
            _overview(reader, screen)


def _overview(reader: RunReader, screen: Screen) -> None:
    run = describe_run(reader.layout.root)
    screen.show(
        Text(str(reader.layout.root), style="bold"),
        _status(run),
        "",
        _made_with(run),
        "",
        scores(reader.state, last=True),
        verdict(reader.state),
        *few_val(reader.state),
        "",
        tally_of(reader.facts).words,
    )
    if reader.steps:
        named = metric_of(reader.state).name
        legend = (
            f"train: mean hard score; current, candidate: mean {named} score on val, <= upper bound"
        )
        screen.show("", moves_table(reader), Text(legend, style="dim"))
    screen.show("", cost(reader), "", best_at(reader.state, reader.layout.best_skill))


def _legend(reader: RunReader, story: Sequence[RenderableType]) -> list[RenderableType]:
    """Where the items stand that are named and have no id of the user's."""
    text = "\n".join(map(str, story))
    named = [(name, place) for name, place in reader.places.items() if name in text]
    return ["", Table("item", "place", rows=named)] if named else []


def _status(run: Run) -> str:
    """How it stands; of a run that was stopped, why."""
    why = f": {run.why}" if run.why and run.status != "finished" else ""
    goes_on = run.status not in {"running", "finished"}
    return f"{run.status}{why}" + ("; run the same train command to resume" if goes_on else "")


def _made_with(run: Run) -> Table:
    """Models, seed and data."""
    mark = "simulated: its scores say nothing about a real model"
    rows = {
        "target": model_name(run.target, mark),
        "optimizer": model_name(run.optimizer, mark),
        "data": f"{run.benchmark}, {run.data or 'rows given in Python'}",
        "seed": "" if run.seed is None else str(run.seed),
    }
    if not run.benchmark:
        rows = dict.fromkeys(rows, "unknown: config.json cannot be read")
    return Table("", "value", header=False, wrap=["value"], rows=rows.items())


def _rebuild(run: Path, screen: Screen) -> None:
    rebuilt = rebuild_run(run)
    for path in rebuilt.files:
        screen.show(str(path))
    if rebuilt.settings_lost:
        screen.warn(
            f"the settings of the run are lost; training again restores {Layout(run).config}"
        )
    screen.tell(
        f"rewrote {len(rebuilt.files)} missing or damaged files"
        if rebuilt.files
        else "all files match the event log; nothing was missing or damaged"
    )


def diff(run: Path, a: str, b: str) -> None:
    screen, changes = Screen(), diff_run(run, a, b)
    if changes:
        screen.show(coloured(changes))
    else:
        screen.tell(f"{a} and {b} are the same skill")


def coloured(changes: str) -> Text:
    return Text("\n").join(Text(line, style=_style(line)) for line in changes.splitlines())


def _style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


_COLOURS: dict[Status, str] = {"finished": "green", "running": "cyan", "crashed": "red"}


def runs(session: Session, folder: Path, *, as_json: bool) -> None:
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a directory; name one with run directories in it")
    screen, listed = Screen(), list_runs(folder)
    if as_json:
        document = {"runs": [_document(run) for run in listed]}
        screen.show(session.hide(json.dumps(document, indent=2)))
    elif listed:
        screen.show(_table(listed))
        for run in listed:
            if isinstance(run, DamagedRun):
                screen.warn(run.why)
    else:
        screen.tell(f"no runs in {folder}, nor up to two levels below it")


def _table(listed: list[Run | OldRun | DamagedRun]) -> Table:
    numbers = ["calls", "tokens", "cost"]
    table = Table(
        "run", "status", "benchmark", "target", "optimizer", "split",
        "before [95 %]", "after [95 %]", *numbers, right=numbers,
    )  # fmt: skip
    for run in listed:
        match run:
            case Run():
                style, cells = _COLOURS.get(run.status, "yellow"), _cells(run)
            case OldRun():
                style, cells = "yellow", ["-"] * 9
            case DamagedRun():
                style, cells = "bold red", ["-"] * 9
        table.add_row(one_line(str(run.out)), Text(run.status, style=style), *cells)
    return table


def _cells(run: Run) -> list[str]:
    spent = run.result.spent
    return [
        run.benchmark or "unknown",
        model_name(run.target) or "unknown",
        model_name(run.optimizer) or "unknown",
        run.result.split,
        spread(run.result.before),
        spread(run.result.after),
        f"{spent.calls:,}",
        short(spent.input + spent.output),
        dollars(spent) if spent.dollars else "-",
    ]


def _document(run: Run | OldRun | DamagedRun) -> dict[str, object]:
    """What is known of a run; of one that cannot be read, where it is and what to do."""
    known: dict[str, object] = {"run": str(run.out), "status": run.status, "why": run.why}
    return {**known, **_findings(run)} if isinstance(run, Run) else known


def _findings(run: Run) -> dict[str, object]:
    result = run.result
    return {
        "benchmark": run.benchmark,
        "target": run.target,
        "optimizer": run.optimizer,
        "simulated": run.simulated,
        "seed": run.seed,
        "data": run.data,
        "split": result.split,
        "metric": result.claim.metric,
        "before": _interval(result.before),
        "after": _interval(result.after),
        "claim": result.claim.words(),
        "calls": result.spent.calls,
        "tokens": result.spent.input + result.spent.output,
        "dollars": result.spent.dollars or None,
        "problem": result.problem,
    }


def _interval(score: Interval) -> dict[str, float]:
    return {"mean": score.mean, "low": score.low, "high": score.high}
