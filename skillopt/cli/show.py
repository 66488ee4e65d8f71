"""`skillopt show`: prints a run, a step, an item or an evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from rich.console import RenderableType
from rich.text import Text

from skillopt.analysis.report import figures, metric_of
from skillopt.api import Run, describe_run, is_simulated, load_evaluation
from skillopt.cli.eval import show_evaluation
from skillopt.cli.render import Screen
from skillopt.cli.report import best_at, cost, few_val, moves_table, scores, tally, verdict
from skillopt.cli.step import attempts_at, step_story
from skillopt.cli.tables import Table
from skillopt.config.load import load_kept
from skillopt.errors import ConfigError, StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.events import EventFile
from skillopt.store.layout import Layout, RolloutFolder
from skillopt.store.lock import RunLock
from skillopt.store.projector import Projector
from skillopt.store.reader import RunReader
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
        screen.show(Text(str(run), style="bold"), "evaluation", "")
        show_evaluation(load_evaluation(run), screen)
        return
    with RunReader(run) as reader:
        if rebuild:
            _rebuild(reader.layout, screen)
        elif step is not None:
            told = list(step_story(reader.step(step)))
            screen.show(*told, *_legend(reader, told))
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
        tally(reader.steps),
    )
    if reader.steps:
        named = metric_of(reader.state).name
        told = (
            f"train: mean hard score; current, candidate: mean {named} score on val, <= upper bound"
        )
        screen.show("", moves_table(reader), Text(told, style="dim"))
    screen.show(
        "",
        cost(reader),
        "",
        best_at(reader.state, reader.layout.best_skill),
    )


def _legend(reader: RunReader, told: Sequence[RenderableType]) -> list[RenderableType]:
    """Where the items stand that are named and have no id of the user's."""
    text = "\n".join(str(each) for each in told)
    named = {name: place for name, place in reader.places.items() if name in text}
    if not named:
        return []
    made = Table("item", "place")
    for pair in named.items():
        made.add_row(*pair)
    return ["", made]


def _status(run: Run) -> str:
    """How it stands; of a run that was stopped, why."""
    why = f": {run.why}" if run.why and run.status != "finished" else ""
    goes_on = run.status not in {"running", "finished"}
    return f"{run.status}{why}" + ("; run the same train command to resume" if goes_on else "")


def _made_with(run: Run) -> Table:
    """Models, seed and data."""
    made = Table("", "value", header=False, wrap=["value"])
    data = f"{run.benchmark}, {run.data}" if run.data else f"{run.benchmark}, rows given in Python"
    for name, value in {
        "target": _model(run.target),
        "optimizer": _model(run.optimizer),
        "data": data,
        "seed": "" if run.seed is None else str(run.seed),
    }.items():
        made.add_row(name, value if run.benchmark else "unknown: config.json cannot be read")
    return made


def _model(name: str) -> str:
    mark = " (simulated: its scores say nothing about a real model)" if is_simulated(name) else ""
    return f"{name}{mark}"


def _rebuild(layout: Layout, screen: Screen) -> None:
    settings = _settings(layout)
    with RunLock(layout.root):
        cache = SqliteCache(layout.cache)
        try:
            document = _document(settings)
            projector = Projector(layout, cache, settings, extra=figures, document=document)
            written = projector.rebuild(EventFile(layout.events).events())
        finally:
            cache.close()
    for path in written:
        screen.show(str(path))
    if not settings:
        screen.warn(f"the settings of the run are lost; training again restores {layout.config}")
    screen.tell(
        f"rewrote {len(written)} missing or damaged files"
        if written
        else "all files match the event log; nothing was missing or damaged"
    )


def _document(settings: Mapping[str, object]) -> str:
    """The settings in sections; empty where they can no longer be read."""
    try:
        return load_kept(settings).dump() if settings else ""
    except ConfigError:
        return ""


def _settings(layout: Layout) -> Mapping[str, object]:
    """The settings of the latest start, from whichever file still has them."""
    found = _read(layout.config)
    if found:
        return found
    inside = _read(layout.summary).get("config")
    return cast("dict[str, object]", inside) if isinstance(inside, dict) else {}


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}
