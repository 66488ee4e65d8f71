"""`skillopt show`: a run directory in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from rich.console import RenderableType
from rich.text import Text

from skillopt.cli.attempts import attempts_at
from skillopt.cli.render import Screen
from skillopt.cli.report import best_at, cost, few_val, moves_table, scores, tally, verdict
from skillopt.cli.step import step_story
from skillopt.cli.tables import Table
from skillopt.config.load import load_kept
from skillopt.core.events import Started, Stopped
from skillopt.errors import ConfigError
from skillopt.evaluation.report import figures, metric_of
from skillopt.store.cache import Cache
from skillopt.store.events import EventLog
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.projector import Projector
from skillopt.store.reader import RunReader


def show(run: Path, *, step: int | None, item: str | None, rebuild: bool) -> None:
    """The whole run, one of its steps, or all attempts at one item."""
    screen = Screen()
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
    screen.show(
        Text(str(reader.layout.root), style="bold"),
        _status(reader),
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


def _status(reader: RunReader) -> str:
    """How the last process that worked on it ended, as far as the record tells."""
    for event in reversed(reader.events):
        match event:
            case Stopped(reason, at):
                return f"stopped at {at} ({reason}); run the same train command to resume"
            case Started(at, version):
                state = "final test done" if reader.state.exam else "final test not done yet"
                return f"started at {at} by skillopt {version}; {state}"
            case _:
                pass
    return ""


def _rebuild(layout: Layout, screen: Screen) -> None:
    settings = _settings(layout)
    with RunLock(layout.root):
        cache = Cache(layout.cache)
        try:
            document = _document(settings)
            projector = Projector(layout, cache, settings, extra=figures, document=document)
            written = projector.rebuild(EventLog(layout.events).events())
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
