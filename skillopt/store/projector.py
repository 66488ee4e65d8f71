"""Keeps the generated files of a run directory up to date with its event log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from skillopt.core.events import Event, Fact, Finished, Note, Signal, Stopped
from skillopt.core.facts import Stepped
from skillopt.core.rollout import Evaluation, Rollout
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.errors import StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.files import (
    Json,
    json_bytes,
    json_list,
    json_row,
    list_item,
    sweep,
    write_atomic,
)
from skillopt.store.kinds import Content, Sources, fact_kinds
from skillopt.store.layout import Layout, RolloutFolder
from skillopt.store.packages import skill_files
from skillopt.store.receipts import Spent, by_move, interrupted, prefetch_receipt, receipt
from skillopt.store.rollout_files import Files, rollout_files
from skillopt.store.run_history import HistoryEntry, RunHistory
from skillopt.store.step_files import rate_json, step_record
from skillopt.store.summary import stopped, summary

_LIVE = (
    "version",
    "config",
    "total_wall_time_s",
    "token_summary",
    "stopped",
    "prices",
    "receipt",
    "interrupted_calls",
    "reused",
    "speculation",
)
"""Parts of the summary that change without a new fact."""
_PLACES = ("current_skill_path", "best_skill_path")
"""Parts of the runtime state that change when the directory is moved."""


def _nothing(_: State) -> Json:
    return {}


def _write(path: Path, data: bytes) -> None:
    write_atomic(path, data, durable=False)


class Projector:
    """Writes what each fact changes, as a `Watcher`; and can write everything again.

    All files follow from the record, finished work and the settings alone, so a lost or damaged
    one costs nothing. `extra` adds to the summary what others compute, such as intervals;
    `document` is the configuration in sections. `write` writes the many files that belong to one
    fact, and may do so later.
    """

    def __init__(
        self,
        layout: Layout,
        cache: SqliteCache,
        config: Mapping[str, object],
        *,
        extra: Callable[[State], Mapping[str, object]] = _nothing,
        document: str = "",
        write: Callable[[Path, bytes], None] = _write,
    ) -> None:
        self._layout = layout
        self._cache = cache
        self._config = config
        self._extra = extra
        self._document = document
        self._write = write
        self._history = RunHistory()
        self._records: dict[str, tuple[Spent, bytes]] = {}
        """Items of `history.json` by move; each is made again only if its cost has changed."""

    def __call__(self, event: Event | Signal) -> None:
        """Take in an event that was recorded; write the files that a fact changes."""
        if not isinstance(event, Fact | Note):
            return
        entry = self._history.add(event)
        if isinstance(event, Stopped | Finished):
            self._close()
        if entry is not None:
            spent = self._cache.spent()
            for path, data in self._own(entry, by_move(spent)):
                self._write(path, data)
            for path, data in self._common(entry.after, spent, [self._history.last_step]):
                write_atomic(path, data, durable=path == self._layout.best_skill)

    def rebuild(self, events: Iterable[Event]) -> list[Path]:
        """Start from a record: write every file anew that is not as it should be.

        Returns those that were missing or damaged, relative to the run directory.
        """
        self._history = RunHistory.of(events)
        self._records.clear()
        state = self._history.state
        if state is None:
            return []
        sweep(self._layout.root)
        return [
            path.relative_to(self._layout.root)
            for path, data in self._all(state)
            if self._repair(path, data)
        ]

    def _close(self) -> None:
        """Tell what was spent since the last fact; a full disk must not hide how a run ended."""
        if (state := self._history.state) is not None:
            with suppress(StoreError):
                fields = self._summary(state, self._cache.spent())
                write_atomic(self._layout.summary, json_bytes(fields), durable=False)

    def _summary(self, state: State, spent: Spent) -> Json:
        free = self._cache.reused
        return {
            **summary(self._history, state, spent, self._config),
            **self._extra(state),
            **stopped(self._history.stopped),
            "prices": dict(self._history.prices),
            "receipt": receipt(spent, self._history.prices),
            **interrupted(self._cache.interrupted()),
            "reused": {
                "attempts": free.attempts,
                "calls": free.calls,
                "receipt": receipt({("", *key): usage for key, usage in free.spared.items()}),
            },
            **prefetch_receipt(self._cache.ahead(), self._history.prices),
        }

    def _all(self, state: State) -> Files:
        spent = self._cache.spent()
        moves = by_move(spent)
        for entry in {entry.fact.move: entry for entry in self._history.entries}.values():
            yield from self._own(entry, moves)
        yield from self._common(state, spent, list(self._history.versions))

    def _own(self, entry: HistoryEntry, moves: Mapping[str, Spent]) -> Files:
        """Files that belong to one fact."""
        kind = fact_kinds()[entry.fact.type]
        for name, content in kind.files(entry.fact, entry, self._sources(entry, moves)):
            yield from self._rendered(self._layout.root / name, content)

    def _sources(self, entry: HistoryEntry, moves: Mapping[str, Spent]) -> Sources:
        return Sources(moves.get(entry.fact.move, {}), self._config, self._rollouts)

    def _rendered(self, path: Path, content: Content) -> Files:
        match content:
            case Skill():
                yield from skill_files(path, content)
            case Evaluation():
                yield from rollout_files(RolloutFolder(path), content, self._rollouts)
            case _:
                yield path, json_bytes(content)

    def _common(self, state: State, spent: Spent, steps: Sequence[int]) -> Files:
        """Files about the run as it stands, and the skills after some of its steps."""
        layout, run_history = self._layout, self._history
        for place in (layout.best_skill, layout.best_among):
            yield from skill_files(place, state.best.skill)
        versions = run_history.versions
        for step in steps:
            yield from skill_files(layout.skill(step), versions[step])
        yield layout.runtime_state, json_bytes(_runtime_state(state, layout, run_history.last_step))
        if rates := _rates(run_history.steps):
            yield layout.rates, b"".join(map(json_row, rates))
        yield layout.history, json_list(self._step_records(by_move(spent)))
        yield layout.summary, json_bytes(self._summary(state, spent))
        yield layout.config, json_bytes(dict(self._config))
        if self._document:
            yield layout.settings, self._document.encode(errors="backslashreplace")

    def _step_records(self, moves: Mapping[str, Spent]) -> Iterator[bytes]:
        for entry in self._history.entries:
            if isinstance(fact := entry.fact, Stepped):
                sources = self._sources(entry, moves)
                made = self._records.get(fact.move)
                if made is None or made[0] != sources.spent:
                    item = list_item(json_bytes(step_record(fact, entry, sources)))
                    made = self._records[fact.move] = sources.spent, item
                yield made[1]

    def _rollouts(self, skill: str, tasks: Sequence[str]) -> dict[str, Rollout]:
        rollouts = self._cache.rollouts(skill=skill, tasks=tasks)
        # Of several attempts at a task, the first is shown.
        by_replicate = sorted(rollouts, key=lambda rollout: -rollout.replicate)
        kept = {rollout.task: rollout for rollout in by_replicate}
        return {task: kept[task] for task in tasks if task in kept}

    def _repair(self, path: Path, data: bytes) -> bool:
        """Write a file that differs; True unless it was whole and merely older."""
        try:
            old = path.read_bytes()
        except OSError:
            old = None
        if old == data:
            return False
        write_atomic(path, data, durable=path == self._layout.best_skill)
        if old is None:
            return True
        layout = self._layout
        if path == layout.settings:
            return False  # as config.json, which says whether it was whole
        if path == layout.config:
            return _read(old) is None
        passing = {layout.summary: _LIVE, layout.runtime_state: _PLACES}.get(path, ())
        return _settled(old, passing) != _settled(data, passing)


def _runtime_state(state: State, layout: Layout, last_step: int) -> Json:
    """Where the run stands; paths are absolute."""
    return {
        "last_completed_step": last_step,
        "current_skill_path": str(layout.skill(last_step).resolve()),
        "current_score": state.current.value,
        "current_origin": state.current.origin,
        "best_skill_path": str(layout.best_skill.resolve()),
        "best_score": state.best.value,
        "best_step": state.best.step,
        "best_origin": state.best.origin,
    }


def _rates(steps: Iterable[Stepped]) -> list[Json]:
    """Every decision on the learning rate so far."""
    return [
        {"step": step.step, "epoch": step.epoch, **rate_json(step.draft.rate)}
        for step in steps
        if step.draft.rate is not None
    ]


def _settled(data: bytes, passing: Sequence[str]) -> object:
    """A file without what changes between facts; the bytes where nothing does."""
    read = _read(data) if passing else None
    return data if read is None else {k: value for k, value in read.items() if k not in passing}


def _read(data: bytes) -> Json | None:
    try:
        return json.loads(data)
    except ValueError:
        return None
