"""Reads a run directory, finished or still running, without changing it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

from skillopt.core.chat import Usage
from skillopt.core.facts import Stepped
from skillopt.core.nearest import did_you_mean
from skillopt.core.paths import STARTED_IN, similar_path
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.errors import StoreError
from skillopt.store.cache import SqliteCache
from skillopt.store.codec import reason
from skillopt.store.events import LoggedEvent, LogReader
from skillopt.store.layout import Layout
from skillopt.store.ledger import PrefetchCount
from skillopt.store.lock import at_work
from skillopt.store.packages import read_skill
from skillopt.store.progress import ProgressReport, read_progress
from skillopt.store.results import read_places
from skillopt.store.run_history import HistoryEntry, RunHistory, skills_in

Status: TypeAlias = Literal[
    "running",
    "finished",
    "stopped by a limit",
    "waiting for answers",
    "interrupted",
    "stopped by an error",
    "crashed",
]
"""How a run stands. Crashed: its process ended without a word, as after a power cut."""
_ENDS: Mapping[str, Status] = {
    "BudgetSpent": "stopped by a limit",
    "Pending": "waiting for answers",
    "CancelledError": "interrupted",
    "KeyboardInterrupt": "interrupted",
}
"""By the kind of error that a note about a stop begins with."""


def why_stopped(reason: str) -> str:
    """The reason of a note about a stop, as people are told it."""
    kind, _, words = reason.partition(": ")
    if _ENDS.get(kind) == "interrupted":
        return "stopped on request"
    return words if words and kind in _ENDS else reason


_NAMES = ("initial", "best", "last")
"""Skills that every run has."""


class RunReader(RunHistory):
    """A run, finished or still running; close it, or use it in a `with` block.

    Its history (state, steps, skills, warnings) is as it was when the reader was made; `refresh`
    takes in what was recorded since. Status, progress, costs and attempts are read when asked for.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.layout = Layout(folder)
        if not folder.is_dir():
            near = similar_path(folder)
            hint = f"did you mean {near}?" if near else "`skillopt runs` lists the runs in outputs/"
            raise StoreError(f"{folder} is not a directory; {hint}")
        self._log = LogReader(self.layout.events)
        self._position = 0
        self.refresh()
        if not self.begun and not at_work(folder):
            raise _not_begun(self.layout)

    @property
    def position(self) -> int:
        """Up to where the log has been taken in: `events(after=position)` is what comes next."""
        return self._position

    @property
    def begun(self) -> bool:
        """Whether the initial skill is measured; before that, a run has no events and no state."""
        return bool(self.entries)

    @property
    def state(self) -> State:
        """Where the run stands."""
        if not self.entries:
            raise _not_begun(self.layout)
        return self.entries[-1].after

    def events(self, after: int = 0) -> list[LoggedEvent]:
        """What is recorded behind a position, oldest first; at once, also from a long log.

        Each event tells its position, to go on from there later. `LogRewritten` if the log does
        not have it any more.
        """
        return LogReader(self.layout.events).read(after)

    def follow(self, after: int = 0, *, pause: float = 0.5) -> Iterator[LoggedEvent]:
        """Every event behind a position, each once, as it is recorded, until no process is at work.

        Looks for new ones every `pause` seconds.
        """
        log = LogReader(self.layout.events)
        while True:
            running = at_work(self.layout.root)  # asked first: what it writes last is read below
            for entry in log.read(after):
                after = entry.position
                yield entry
            if not running:
                return
            time.sleep(pause)

    def refresh(self) -> list[LoggedEvent]:
        """Take in, and return, what was recorded since; costs what is new."""
        entries = self._log.read(self._position)
        for entry in entries:
            self.add(entry.event)
            self._position = entry.position
        return entries

    @property
    def why(self) -> str:
        """Why the last process stopped before the plan was done; empty if none did."""
        return "" if self.stopped is None else why_stopped(self.stopped.reason)

    def progress(self) -> ProgressReport | None:
        """What the running process reports: phases, counts, cost; None if none is running."""
        return read_progress(self.layout)

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if "_cache" in self.__dict__:
            self._cache.close()

    def step(self, number: int) -> HistoryEntry:
        """One step with the states around it."""
        for entry in self.entries:
            if isinstance(entry.fact, Stepped) and entry.fact.step == number:
                return entry
        last = self.last_step
        have = f"steps 1 to {last}" if last else "no step yet"
        raise StoreError(f"{self.layout.root} has no step {number}: it has {have}")

    def skill(self, name: str) -> Skill:
        """A skill by name.

        `initial`, `best` or `last` (also called `current`); a step (`3`, `v0003`), for the skill
        that was current after it; the first characters (at least four) of a digest, of whatever
        was drafted; a file, or the folder of a package.
        """
        versions = self.versions
        match name:
            case "initial":
                return self.state.initial.skill
            case "best":
                return self.state.best.skill
            case "current" | "last":
                return self.state.current.skill
            case _ if re.fullmatch(r"v?\d{1,9}", name) and int(name.lstrip("v")) in versions:
                return versions[int(name.lstrip("v"))]
            case _:
                return self._by_digest(name) or _read_skill(Path(name), max(versions))

    def rollouts(self, *, task: str | None = None, skill: str | None = None) -> list[Rollout]:
        """Kept attempts, oldest first: at a task (by id), under a skill (by digest)."""
        return self._cache.rollouts(skill=skill, tasks=None if task is None else [task])

    @property
    def config(self) -> Mapping[str, object]:
        """The settings of the latest start; `started_in`, where there is one, is absolute."""
        place = self.layout.config
        try:
            kept = TypeAdapter(dict[str, object]).validate_json(place.read_bytes())
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{place} cannot be read ({reason(error)}); `skillopt train` writes it again"
            ) from error
        if STARTED_IN in kept:
            kept[STARTED_IN] = str((self.layout.root / str(kept[STARTED_IN])).resolve())
        return kept

    @cached_property
    def places(self) -> Mapping[str, str]:
        """Where items without an id of the user's stand, by id: `tickets.csv:12`."""
        return read_places(self.layout)

    @property
    def status(self) -> Status:
        """Whether a process is at work on it, and if none is, how the last one ended."""
        if at_work(self.layout.root):
            return "running"
        if self.finished:
            return "finished"
        if self.stopped is None:
            return "crashed"
        return _ENDS.get(self.stopped.reason.partition(":")[0], "stopped by an error")

    def spent(self) -> dict[tuple[str, str, str], Usage]:
        """What was paid, by (move, role, stage)."""
        return self._cache.spent()

    def interrupted(self) -> Usage:
        """What counts as paid by calls under way when a process was killed or stopped."""
        return self._cache.interrupted()

    def ahead(self) -> PrefetchCount:
        """What was made before it was needed, and what came of it."""
        return self._cache.ahead()

    @cached_property
    def _cache(self) -> SqliteCache:
        return SqliteCache(self.layout.cache, read_only=True)

    def _by_digest(self, prefix: str) -> Skill | None:
        if not re.fullmatch(r"[0-9a-f]{4,16}", prefix):
            return None
        skills = (skill for skill, _ in skills_in(self.facts))
        matching = {skill.digest: skill for skill in skills if skill.digest.startswith(prefix)}
        if len(matching) > 1:
            raise StoreError(f"{prefix!r} could be any of: {', '.join(matching)}. Give more of it.")
        return next(iter(matching.values()), None)


def _not_begun(layout: Layout) -> StoreError:
    return StoreError(
        f"{layout.root} holds no run that has begun: it has no {layout.events.name} with a "
        "measured initial skill. Name the directory of a run (out_root)."
    )


def _read_skill(path: Path, last: int) -> Skill:
    if not path.exists():
        hint = did_you_mean(str(path), _NAMES)
        near = None if hint else similar_path(path)
        hint = f"{hint} " if hint else f"did you mean {near}? " if near else ""
        raise StoreError(
            f"no skill is called {str(path)!r}; {hint}A skill of a run is initial, best, last, a "
            f"step from 0 to {last}, the first characters of a digest, or the path of a file or "
            "of a skill package folder"
        )
    return read_skill(path)
