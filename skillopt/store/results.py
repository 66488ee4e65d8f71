"""Results that commands leave beside a run: evaluations and attributions, written and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from skillopt.core.attribution import Attribution
from skillopt.core.chat import Usage
from skillopt.core.rollout import FULL_MARKS
from skillopt.core.task import Task
from skillopt.errors import StoreError
from skillopt.store import codec
from skillopt.store.cache import SqliteCache
from skillopt.store.files import write_json
from skillopt.store.layout import Layout, RolloutFolder


def write_attribution(layout: Layout, attribution: Attribution) -> None:
    """Keep it for readers; it can be made again from finished work."""
    write_json(
        layout.attribution, json.loads(codec.attributions().encode(attribution)), durable=False
    )


def read_attribution(layout: Layout) -> Attribution | None:
    """What was found; None when nobody has asked yet."""
    path = layout.attribution
    try:
        return codec.attributions().decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read; `skillopt attribute {layout.root}` writes it again for free"
        ) from error


@dataclass(frozen=True, slots=True)
class SplitScore:
    """A skill on one split, or on all of them together."""

    split: str
    score: float
    """In the metric of the evaluation."""
    low: float
    high: float
    """Ends of the 95 % interval."""
    hard: float
    soft: float
    n: int
    """Items that have a score."""
    failures: int
    """Items that have none."""
    replicates: int = 1
    passed: float | None = None
    """Share of items that were passed every time, where each was tried more than once."""


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item without full marks."""

    id: str
    hard: float | None
    """None: the attempt failed and has no score."""
    reason: str
    place: str = ""
    """File and line, if the data has no id for it."""


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The result of an evaluation."""

    out: Path
    skill: str
    """The path of the skill; empty if it was given as a text."""
    metric: str
    benchmark: str
    target: str
    """The name of the model."""
    data: str
    splits: tuple[SplitScore, ...]
    whole: SplitScore
    failed: tuple[FailedItem, ...]
    """Items without full marks; those without a score come first."""
    spent: Usage


def holds_evaluation(folder: Path) -> bool:
    """Whether `eval` has written its result here, and no training."""
    layout = Layout(folder)
    return layout.evaluation.is_file() and not layout.events.exists()


def read_evaluation(folder: Path) -> EvaluationReport:
    """The result of an evaluation from its directory."""
    layout = Layout(folder)
    try:
        summary = cast("dict[str, object]", json.loads(layout.evaluation.read_bytes()))
        lines = RolloutFolder(folder).results.read_bytes().splitlines()
        rows = [cast("dict[str, object]", json.loads(line)) for line in lines]
        splits = cast("Mapping[str, Mapping[str, object]]", summary["splits"])
        return EvaluationReport(
            out=folder,
            skill=str(summary["skill"]),
            metric=str(summary["metric"]),
            benchmark=str(summary.get("benchmark", "")),
            target=str(summary.get("target", "")),
            data=str(summary.get("data", "")),
            splits=tuple(_score(name, each) for name, each in splits.items()),
            whole=_score("all", summary),
            failed=_failed(rows, read_places(layout)),
            spent=_spent(layout, summary.get("booked")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{layout.evaluation} or {RolloutFolder(folder).results.name} cannot be read "
            f"({error}); the same `skillopt eval` writes them again, without paying twice"
        ) from error


def _score(name: str, fields: Mapping[str, object]) -> SplitScore:
    low, high = cast("Sequence[float]", fields["score_interval_95"])
    passed = fields.get("passed_every_time")
    return SplitScore(
        split=name,
        score=_number(fields["score"]),
        low=low,
        high=high,
        hard=_number(fields["hard"]),
        soft=_number(fields["soft"]),
        n=round(_number(fields["n_scored"])),
        failures=round(_number(fields["n_failures"])),
        replicates=round(_number(fields.get("replicates", 1))),
        passed=None if passed is None else _number(passed),
    )


def _number(value: object) -> float:
    return float(cast("float", value))


def _failed(
    rows: Sequence[Mapping[str, object]], places: Mapping[str, str]
) -> tuple[FailedItem, ...]:
    unscored: list[FailedItem] = []
    wrong: list[FailedItem] = []
    for row in rows:
        item = str(row["id"])
        place = places.get(item, "")
        if row["hard"] is None:
            error = cast("Mapping[str, object]", row["error"])
            reason = f"{error['kind']}: {error['message']}"
            unscored.append(FailedItem(item, None, reason, place))
        elif (hard := _number(row["hard"])) < FULL_MARKS:
            wrong.append(FailedItem(item, hard, str(row.get("fail_reason") or ""), place))
    return (*unscored, *wrong)


def write_places(layout: Layout, tasks: Iterable[Task], hide: Callable[[str], str]) -> None:
    """Where items without an id of the user's stand."""
    if places := {task.id: hide(task.told) for task in tasks if task.where}:
        write_json(layout.places, places)


def read_places(layout: Layout) -> Mapping[str, str]:
    """Where items without an id of the user's stand, by id: `tickets.csv:12`."""
    try:
        places: object = json.loads(layout.places.read_bytes())
    except (OSError, ValueError):
        return {}
    items = cast("dict[str, object]", places) if isinstance(places, dict) else {}
    return {key: value for key, value in items.items() if isinstance(value, str)}


def spent_under(cache: SqliteCache, booked: str) -> Usage:
    """What one of the evaluations in a folder has paid."""
    return sum((used for (move, *_), used in cache.spent().items() if move == booked), Usage())


def _spent(layout: Layout, booked: object) -> Usage:
    """Of older evaluations, which do not say how theirs is booked, all that the folder has paid."""
    cache = SqliteCache(layout.cache, read_only=True)
    try:
        if isinstance(booked, str):
            return spent_under(cache, booked)
        return sum(cache.spent().values(), Usage())
    finally:
        cache.close()
