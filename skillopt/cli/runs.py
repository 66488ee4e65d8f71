"""`skillopt runs`: lists all runs in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from rich.text import Text

from skillopt.api import Run, list_runs
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import dollars, model_name, short, spread
from skillopt.cli.render import Screen
from skillopt.cli.tables import Table
from skillopt.errors import StoreError
from skillopt.gates.statistics import Interval
from skillopt.store.reader import Status

_COLOURS: dict[Status, str] = {"finished": "green", "running": "cyan", "crashed": "red"}


def runs(session: Session, folder: Path, *, as_json: bool) -> None:
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a directory; name one with run directories in it")
    screen, found = Screen(), list_runs(folder)
    if as_json:
        document = {"runs": [_document(run) for run in found]}
        screen.show(session.hide(json.dumps(document, indent=2)))
    elif found:
        screen.show(_table(found))
    else:
        screen.tell(f"no runs in {folder}, nor up to two levels below it")


def _table(found: list[Run]) -> Table:
    numbers = ["calls", "tokens", "cost"]
    table = Table(
        "run", "status", "benchmark", "target", "optimizer", "split",
        "before [95 %]", "after [95 %]", *numbers, right=numbers,
    )  # fmt: skip
    for run in found:
        spent = run.result.spent
        table.add_row(
            str(run.out),
            Text(run.status, style=_COLOURS.get(run.status, "yellow")),
            run.benchmark or "unknown",
            model_name(run.target) or "unknown",
            model_name(run.optimizer) or "unknown",
            run.result.split,
            spread(run.result.before),
            spread(run.result.after),
            f"{spent.calls:,}",
            short(spent.input + spent.output),
            dollars(spent) if spent.dollars else "-",
        )
    return table


def _document(run: Run) -> dict[str, object]:
    result = run.result
    return {
        "run": str(run.out),
        "status": run.status,
        "why": run.why,
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
