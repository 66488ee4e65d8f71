"""`skillopt runs`: lists all runs in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from rich.text import Text

from skillopt.api import Run, is_simulated, list_runs
from skillopt.cli.formatting import dollars, short, spread
from skillopt.cli.render import Screen
from skillopt.cli.session import Session
from skillopt.cli.tables import Table
from skillopt.errors import StoreError
from skillopt.gates.statistics import Interval
from skillopt.store.reader import Status

_COLOURS: dict[Status, str] = {"finished": "green", "running": "cyan", "crashed": "red"}


def runs(session: Session, folder: Path, *, as_json: bool) -> None:
    """List the runs in a folder and up to two levels below it."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a directory; name one with run directories in it")
    screen = Screen()
    found = list_runs(folder)
    if as_json:
        told = json.dumps({"runs": [_document(each) for each in found]}, indent=2)
        screen.show(session.hide(told))
        return
    if not found:
        screen.tell(f"no runs in {folder}, nor up to two levels below it")
        return
    numbers = ["calls", "tokens", "cost"]
    made = Table(
        "run", "status", "benchmark", "target", "optimizer", "split",
        "before [95 %]", "after [95 %]", *numbers, right=numbers,
    )  # fmt: skip
    for each in found:
        spent = each.result.spent
        made.add_row(
            str(each.out),
            Text(each.status, style=_COLOURS.get(each.status, "yellow")),
            each.benchmark or "unknown",
            _model(each.target),
            _model(each.optimizer),
            each.result.split,
            spread(each.result.before),
            spread(each.result.after),
            f"{spent.calls:,}",
            short(spent.input + spent.output),
            dollars(spent) if spent.dollars else "-",
        )
    screen.show(made)


def _model(name: str) -> str:
    return f"{name} (simulated)" if is_simulated(name) else name or "unknown"


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


def _interval(found: Interval) -> dict[str, float]:
    return {"mean": found.mean, "low": found.low, "high": found.high}
