"""The runs below a folder: which there are, how they stand, and one of them opened for reading."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias, TypeVar

from skillopt.analysis.report import Claim
from skillopt.api import RunViews, describe_run, find_runs
from skillopt.app.result import Result, Run, is_simulated
from skillopt.config.load import load_config
from skillopt.config.schema import Config
from skillopt.core.events import Fact
from skillopt.errors import ConfigError, OldFormat, SkilloptError, StoreError
from skillopt.gates.statistics import Interval
from skillopt.store.events import read_log
from skillopt.store.layout import Layout
from skillopt.store.lock import at_work, lock_holder
from skillopt.store.reader import RunReader
from skillopt_webui.logs import last_error, launched, log_of, run_id

T = TypeVar("T")
Json: TypeAlias = dict[str, object]

FAILED: Final = "stopped by an error"
NOT_BEGUN: Final = "not begun"
"""The initial skill is not measured, and no process is at work."""
_OPEN: Final = 6
"""Runs that are kept open at once."""
_SLICE: Final = 0.3
"""Seconds of reading summaries before they are shown."""


class NotFound(SkilloptError):
    """Nothing is known by this name; says what to do."""


def run_name(root: Path, folder: Path) -> str:
    """What people call it: its place below the root, without the `run` that all have."""
    try:
        inside = folder.relative_to(root)
    except ValueError:
        inside = Path(folder.name)
    if inside.name == "run" and inside.parent.name:
        inside = inside.parent
    name = inside.as_posix() if inside.name else folder.resolve().name
    return os.fsencode(name).decode("utf-8", "replace")


@dataclass(slots=True)
class Card:
    """One run in the list."""

    id: str
    name: str
    folder: Path
    stamp: tuple[int, int] = (0, 0)
    """Of the event log when its summary was read."""
    modified: float = 0.0
    working: bool = False
    summary: Json | None = None
    """None: not read yet."""

    def shown(self) -> Json:
        told: Json = {"id": self.id, "name": self.name, "modified": self.modified}
        if self.summary is None:
            return told | {"status": "reading"}
        return told | self.summary | ({"status": "running"} if self.working else {})


@dataclass(slots=True)
class Catalogue:
    """All runs below the root. Folders are found at once, summaries are read newest first."""

    root: Path
    read: Callable[[Path], Json]
    """One line about a run."""
    version: int = 0
    """Rises when something in the list has changed."""
    awaited: Callable[[Path], bool] = lambda _: False
    """Whether a process was started for a run, which may not have written anything yet."""
    _cards: dict[str, Card] = field(default_factory=dict[str, Card])
    _lock: Lock = field(default_factory=Lock)

    def cards(self) -> list[Card]:
        with self._lock:
            return list(self._cards.values())

    def folder(self, name: str) -> Path:
        """The directory of a run that was found below the root; no other can be named."""
        with self._lock:
            card = self._cards.get(name)
        if card is None:
            raise NotFound(f"no run is called {name!r} here; the list has those that there are")
        return card.folder

    def scan(self) -> None:
        """Find what is new, what has gone, and which runs are being trained."""
        found: dict[str, Card] = {}
        changed = False
        known = {card.folder: card for card in self.cards()}
        for folder in dict.fromkeys([*find_runs(self.root), *self._launched()]):
            card = known.get(folder)
            if card is None:
                name = run_id(self.root, folder)
                card, changed = Card(name, run_name(self.root, folder), folder), True
            working = _is_working(folder)
            changed |= working != card.working
            if working != card.working:
                card.working, card.stamp = working, (0, 0)
            found[card.id] = card
            card.modified = _modified(folder)
        with self._lock:
            changed |= self._cards.keys() != found.keys()
            self._cards = found
            self.version += changed

    def _launched(self) -> list[Path]:
        """Runs that were launched from a page and are there, or were stopped by an error."""
        return [
            folder
            for folder in launched(self.root)
            if folder.is_dir() or self.awaited(folder) or last_error(log_of(self.root, folder))
        ]

    def read_some(self) -> bool:
        """Read summaries for a moment; whether some are left."""
        end = time.monotonic() + _SLICE
        for card in sorted(self.cards(), key=lambda card: -card.modified):
            stamp = stamp_of(Layout(card.folder).events)
            if card.summary is not None and card.stamp == stamp:
                continue
            if time.monotonic() > end:
                return True
            try:
                card.summary = self.read(card.folder)
            except Exception as error:  # noqa: BLE001 - one run fails, not the list
                traceback.print_exc(file=sys.stderr)
                card.summary = {"status": "unreadable", "why": f"{type(error).__name__}: {error}"}
            card.stamp = stamp
            self.version += 1
        return False


def summary_of(folder: Path) -> Json:
    """One line about a run, whatever its state."""
    try:
        return _told(describe_run(folder))
    except OldFormat as error:
        return {"status": "old format", "why": str(error)}
    except StoreError as error:
        told = _planned(folder)
        if at_work(folder):
            return told | {"status": "running", "why": "the initial skill is being measured"}
        return told | {
            "status": NOT_BEGUN if has_no_fact(folder) else "unreadable",
            "why": str(error),
        }


def has_no_fact(folder: Path) -> bool:
    """Whether a run has recorded nothing that it could go on from; False if that is damaged."""
    log = Layout(folder).events
    try:
        if not log.exists() or not log.stat().st_size:
            return True
        events = read_log(log)
    except (OSError, SkilloptError):
        return False
    return bool(events) and not any(isinstance(event, Fact) for event in events)


def planned(folder: Path) -> Config | None:
    """The settings with which a run was launched from a page; it keeps them once it has begun."""
    made = folder.parent / "config.yaml"
    with suppress(ConfigError):
        if made.is_file() and (config := load_config(made)).env.out_root == str(folder):
            return config
    return None


def _planned(folder: Path) -> Json:
    if (config := planned(folder)) is None:
        return {}
    target, optimizer = (config.model.role(role).model for role in ("target", "optimizer"))
    return {
        "benchmark": config.env.name,
        "target": target,
        "optimizer": optimizer,
        "simulated": is_simulated(target) or is_simulated(optimizer),
    }


def _told(run: Run) -> Json:
    result = run.result
    usage = result.spent
    return {
        "status": run.status,
        "why": "" if run.status == "finished" else run.why,
        "benchmark": run.benchmark,
        "target": run.target,
        "optimizer": run.optimizer,
        "simulated": run.simulated,
        "data": run.data,
        "seed": run.seed,
        "before": interval_json(result.before),
        "after": interval_json(result.after),
        "claim": None if _is_initial(result) else claim_json(result.claim),
        "steps": run.steps,
        "seconds": run.seconds,
        "calls": usage.calls,
        "tokens": usage.input + usage.output,
        "dollars": usage.dollars or None,
        "size": len(result.best_skill),
        "warnings": len(result.warnings),
    }


def _is_initial(result: Result) -> bool:
    """Whether there is nothing to compare: the best skill is the initial one, and not tested."""
    best, initial = result.state.best.skill, result.state.initial.skill
    return result.split == "val" and best.digest == initial.digest


def interval_json(found: Interval) -> Json:
    return {"mean": found.mean, "low": found.low, "high": found.high}


def claim_json(claim: Claim) -> Json:
    return {
        **interval_json(claim.gain),
        "split": claim.split,
        "metric": claim.metric,
        "n": claim.n,
        "changed": claim.changed,
        "failures": claim.failures,
        "conclusive": claim.split == "test" and claim.conclusive,
        "words": claim.words(),
    }


def _is_working(folder: Path) -> bool:
    """Whether a process is seen to train a run; there are file systems without locks."""
    with suppress(OSError):
        return at_work(folder)
    return False


def at_work_since(folder: Path) -> str:
    """When the process that is at work on a run began; empty if none is."""
    with suppress(OSError):
        return (lock_holder(folder) or "").partition(" since ")[2].replace(" ", "T")
    return ""


def _modified(folder: Path) -> float:
    """When a run has recorded something last; before that, when its folder was made."""
    for path in (Layout(folder).events, folder, folder.parent):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def stamp_of(path: Path) -> tuple[int, int]:
    """By which a file is known to have been written anew: time and size."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


class OpenRun:
    """A run with its reader in a thread of its own, so that reading it never holds up others."""

    def __init__(self, name: str, folder: Path) -> None:
        self.id = name
        self.folder = folder
        self._views: RunViews | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"run-{name}")

    async def ask(self, work: Callable[[OpenRun], T]) -> T:
        """Do something in the thread of this run."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self)

    @property
    def views(self) -> RunViews:
        """Opened when they are first needed; only to be used in its thread."""
        if self._views is None:
            self._views = RunViews(RunReader(self.folder), planned(self.folder))
        return self._views

    def forget(self) -> None:
        """Read the record again from its beginning when it is needed next."""
        if self._views is not None:
            self._views.close()
        self._views = None

    def close(self) -> None:
        self._thread.submit(self.forget)
        self._thread.shutdown(wait=False)


class RunCache:
    """The runs that are open: the last few that somebody looked at, and those that are followed."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self.busy: Callable[[str], bool] = lambda _: False
        """Whether somebody follows a run, so that it stays open."""

    def run(self, name: str) -> OpenRun:
        folder = self._catalogue.folder(name)
        run = self._open.get(name)
        if run is None:
            run = self._open[name] = OpenRun(name, folder)
        self._open.move_to_end(name)
        for other in list(self._open):
            if len(self._open) <= _OPEN:
                break
            if other != name and not self.busy(other):
                self._open.pop(other).close()
        return run

    def close(self) -> None:
        for run in self._open.values():
            run.close()
        self._open.clear()
