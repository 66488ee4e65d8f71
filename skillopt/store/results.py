"""Results that commands leave beside a run: evaluations and attributions, written and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import NotRequired, TypedDict

from skillopt.core.attribution import Attribution
from skillopt.core.chat import Usage
from skillopt.core.rollout import FULL_MARKS
from skillopt.core.task import Task
from skillopt.errors import StoreError
from skillopt.store import codec
from skillopt.store.cache import SqliteCache, check_cache_format
from skillopt.store.files import write_json
from skillopt.store.layout import Layout, RolloutFolder


def write_attribution(layout: Layout, attribution: Attribution) -> None:
    """Keep it for readers; it can be made again from finished work."""
    write_json(
        layout.attribution,
        json.loads(codec.codec_of(Attribution).encode(attribution)),
        durable=False,
    )


def read_attribution(layout: Layout) -> Attribution | None:
    """What was found; None when nobody has asked yet."""
    path = layout.attribution
    try:
        return codec.codec_of(Attribution).decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read; `skillopt attribute {layout.root}` writes it again for free"
        ) from error


@dataclass(frozen=True, slots=True)
class SplitScore:
    """A skill on one split, on all of them together, or on a group of tasks."""

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
    groups: tuple[SplitScore, ...] = ()
    """The same by groups of tasks; empty: there is only one."""


class _Scores(TypedDict):
    """What `eval_summary.json` holds of a split, and of all of them together."""

    score: float
    score_interval_95: tuple[float, float]
    hard: float
    soft: float
    n_scored: int
    n_failures: int
    replicates: NotRequired[int]
    passed_every_time: NotRequired[float]


class _Summary(_Scores):
    skill: str
    metric: str
    benchmark: str
    target: str
    data: str
    splits: dict[str, _Scores]
    groups: NotRequired[dict[str, _Scores]]
    booked: str


class _Row(TypedDict):
    """What `results.jsonl` holds of an item."""

    id: str
    hard: float | None
    fail_reason: NotRequired[str]
    error: NotRequired[dict[str, str]]


def holds_evaluation(folder: Path) -> bool:
    """Whether `eval` has written its result here, and no training."""
    layout = Layout(folder)
    return layout.evaluation.is_file() and not layout.events.exists()


def read_evaluation(folder: Path) -> EvaluationReport:
    """The result of an evaluation from its directory."""
    layout, results = Layout(folder), RolloutFolder(folder).results
    check_cache_format(layout.cache)
    try:
        summary = TypeAdapter(_Summary).validate_json(layout.evaluation.read_bytes())
        lines = results.read_bytes().splitlines()
        row = TypeAdapter(_Row)
        rows = [row.validate_json(line) for line in lines]
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{layout.evaluation} or {results.name} cannot be read ({codec.reason(error)}); the "
            "same `skillopt eval` writes them again, without paying twice"
        ) from error
    cache = SqliteCache(layout.cache, read_only=True)
    spent = spent_under(cache, summary["booked"])
    cache.close()
    return EvaluationReport(
        out=folder,
        skill=summary["skill"],
        metric=summary["metric"],
        benchmark=summary["benchmark"],
        target=summary["target"],
        data=summary["data"],
        splits=tuple(_score(name, scores) for name, scores in summary["splits"].items()),
        whole=_score("all", summary),
        failed=_failed(rows, read_places(layout)),
        spent=spent,
        groups=tuple(_score(name, scores) for name, scores in summary.get("groups", {}).items()),
    )


def _score(name: str, scores: _Scores) -> SplitScore:
    low, high = scores["score_interval_95"]
    return SplitScore(
        split=name,
        score=scores["score"],
        low=low,
        high=high,
        hard=scores["hard"],
        soft=scores["soft"],
        n=scores["n_scored"],
        failures=scores["n_failures"],
        replicates=scores.get("replicates", 1),
        passed=scores.get("passed_every_time"),
    )


def _failed(rows: Sequence[_Row], places: Mapping[str, str]) -> tuple[FailedItem, ...]:
    failed: list[FailedItem] = []
    for row in rows:
        item, hard = row["id"], row["hard"]
        if hard is None:
            reason = "{kind}: {message}".format(**row.get("error", {}))
            failed.append(FailedItem(item, None, reason, places.get(item, "")))
        elif hard < FULL_MARKS:
            reason = row.get("fail_reason", "")
            failed.append(FailedItem(item, hard, reason, places.get(item, "")))
    return tuple(sorted(failed, key=lambda item: item.hard is not None))


def write_places(layout: Layout, tasks: Iterable[Task], hide: Callable[[str], str]) -> None:
    """Where items without an id of the user's stand."""
    if places := {task.id: hide(task.told) for task in tasks if task.where}:
        write_json(layout.places, places)


def read_places(layout: Layout) -> Mapping[str, str]:
    """Where items without an id of the user's stand, by id: `tickets.csv:12`."""
    try:
        return TypeAdapter(dict[str, str]).validate_json(layout.places.read_bytes())
    except (OSError, ValueError):
        return {}


def spent_under(cache: SqliteCache, booked: str) -> Usage:
    """What one of the evaluations in a folder has paid."""
    return sum((used for (move, *_), used in cache.spent().items() if move == booked), Usage())
