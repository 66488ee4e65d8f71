"""Keeps the generated files of a run directory up to date with its event log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from skillopt.core.events import (
    Begun,
    EpochClosed,
    Event,
    FinalTested,
    MetaReflected,
    PhaseClosed,
    PhaseOpened,
    Pruned,
    Signal,
    Stepped,
    Stopped,
    Ticked,
    Waiting,
)
from skillopt.core.rollout import Rollout
from skillopt.core.state import State
from skillopt.errors import StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.files import Json, json_bytes, json_row, sweep, write_atomic
from skillopt.store.history import StepRecords, rates, runtime_state
from skillopt.store.layout import Layout
from skillopt.store.packages import skill_files
from skillopt.store.projections import (
    Files,
    epoch_files,
    final_test_files,
    pruning_files,
    rethinking_files,
    rollout_files,
    step_files,
)
from skillopt.store.receipts import Spent, by_move, interrupted, prefetch_receipt, receipt
from skillopt.store.run_history import HistoryEntry, RunHistory
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


class Projector:
    """Writes what each fact changes, as a `Watcher`; and can write everything again.

    All files follow from the record, finished work and the settings alone, so a lost or damaged
    one costs nothing. `extra` adds to the summary what others compute, such as intervals;
    `document` is the configuration in sections.
    """

    def __init__(
        self,
        layout: Layout,
        cache: SqliteCache,
        config: Mapping[str, object],
        *,
        extra: Callable[[State], Mapping[str, object]] = _nothing,
        document: str = "",
    ) -> None:
        self._layout = layout
        self._cache = cache
        self._config = config
        self._extra = extra
        self._document = document
        self._history = RunHistory()
        self._records = StepRecords(config)

    def __call__(self, event: Event | Signal) -> None:
        """Take in an event that was recorded; write the files that a fact changes."""
        if isinstance(event, PhaseOpened | Ticked | PhaseClosed | Waiting):
            return
        entry = self._history.add(event)
        if isinstance(event, Stopped):
            self._close()
        if entry is not None:
            spent = self._cache.spent()
            for path, data in self._own(entry, by_move(spent)):
                write_atomic(path, data, durable=False)
            if isinstance(entry.fact, FinalTested):
                for path, data in self._final_test(entry.fact, entry.after):
                    write_atomic(path, data, durable=False)
            for path, data in self._common(entry.after, spent, [self._history.last_step]):
                write_atomic(path, data, durable=path == self._layout.best_skill)

    def rebuild(self, events: Iterable[Event]) -> list[Path]:
        """Start from a record: write every file anew that is not as it should be.

        Returns those that were missing or damaged, relative to the run directory.
        """
        self._history = RunHistory.of(events)
        self._records = StepRecords(self._config)
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
        """Tell what was spent since the last fact; a full disk must not hide why a run stopped."""
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
        for entry in self._history.entries:
            yield from self._own(entry, moves)
        if state.final_test is not None:
            yield from self._final_test(state.final_test, state)
        yield from self._common(state, spent, list(self._history.versions))

    def _final_test(self, final_test: FinalTested, state: State) -> Files:
        return final_test_files(self._layout, final_test, state, self._attempts)

    def _own(self, entry: HistoryEntry, moves: Mapping[str, Spent]) -> Files:
        """Files that belong to one fact, and that no later one touches."""
        spent: Spent = {} if isinstance(entry.fact, Begun) else moves.get(entry.fact.move, {})
        match entry.fact:
            case Begun(initial):
                yield from rollout_files(self._layout.baseline, initial.evaluation, self._attempts)
            case Stepped(step=number) as fact:
                folder = self._layout.step(number)
                yield from step_files(folder, fact, entry, self._attempts)
                yield folder.record, self._records.file(fact, entry, spent)
            case MetaReflected(epoch=number) as fact:
                folder = self._layout.meta_reflect(number)
                yield from rethinking_files(folder, fact, entry, spent, self._attempts)
            case Pruned(epoch=number) as fact:
                folder = self._layout.prune(number)
                yield from pruning_files(folder, fact, entry, spent, self._attempts)
            case EpochClosed(epoch=number) as fact:
                yield from epoch_files(self._layout.epoch(number), fact, entry, self._attempts)
            case FinalTested():
                pass  # a later exam replaces it

    def _common(self, state: State, spent: Spent, steps: Sequence[int]) -> Files:
        """Files about the run as it stands, and the skills after some of its steps."""
        layout, run_history = self._layout, self._history
        for place in (layout.best_skill, layout.best_among):
            yield from skill_files(place, state.best.skill)
        versions = run_history.versions
        for step in steps:
            yield from skill_files(layout.skill(step), versions[step])
        current = layout.skill(run_history.last_step)
        stands = runtime_state(run_history, state, current, layout.best_skill)
        yield layout.runtime_state, json_bytes(stands)
        if decided := rates(run_history):
            yield layout.rates, b"".join(map(json_row, decided))
        yield layout.history, self._records.history(run_history.entries, by_move(spent))
        yield layout.summary, json_bytes(self._summary(state, spent))
        yield layout.config, json_bytes(dict(self._config))
        if self._document:
            yield layout.settings, self._document.encode(errors="backslashreplace")

    def _attempts(self, skill: str, tasks: Sequence[str]) -> dict[str, Rollout]:
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


def _settled(data: bytes, passing: Sequence[str]) -> object:
    """A file without what changes between facts; the bytes where nothing does."""
    read = _read(data) if passing else None
    return data if read is None else {k: value for k, value in read.items() if k not in passing}


def _read(data: bytes) -> Json | None:
    try:
        return json.loads(data)
    except ValueError:
        return None
