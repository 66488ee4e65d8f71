"""How far a running process is, for readers in other processes: `progress.json`.

The file is no part of the run. It is replaced a few times a second at most, in a thread of its own,
and removed when the process ends. What a killed process has left is recognised by the run's lock.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from threading import Event as ThreadEvent
from threading import Lock, Thread

from skillopt.core.chat import Usage
from skillopt.core.events import (
    Event,
    Fact,
    PhaseClosed,
    PhaseOpened,
    Retried,
    Signal,
    Ticked,
    Waiting,
)
from skillopt.errors import StoreError
from skillopt.store.codec import codec_of
from skillopt.store.files import write_atomic
from skillopt.store.layout import Layout
from skillopt.store.lock import lock_holder

_PAUSE = 0.25
"""Seconds between two versions of the file."""


@dataclass(frozen=True, slots=True)
class PhaseStatus:
    """A phase under way: `rollout`, `reflect`, `evaluate` and so on."""

    operation: str
    """The operation of the plan that it belongs to: `step_0003`."""
    phase: str
    done: int
    """Units finished so far, `reused` and `failed` ones included."""
    total: int
    """0: not known."""
    reused: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How far a running process is."""

    pid: int
    at: str
    """When this was written, in UTC."""
    done: int = 0
    """Finished operations of the plan: the baseline, steps, ends of epochs, the final test."""
    total: int = 0
    """All operations of the plan; 0: not known yet."""
    phases: tuple[PhaseStatus, ...] = ()
    """What is under way, oldest first."""
    spent: Usage = field(default_factory=Usage)
    """By all processes of the run so far."""
    waiting: dict[str, float] = field(default_factory=dict[str, float])
    """Servers that are down and waited for, with the seconds since they are."""
    retried: dict[str, int] = field(default_factory=dict[str, int])
    """By role, how often this process asked again after an error that may pass."""
    limited: dict[str, int] = field(default_factory=dict[str, int])
    """Of these, how often because the server said that it was asked too often."""


def read_progress(layout: Layout) -> ProgressReport | None:
    """What the process at work has reported; None if there is none, or nothing from it yet."""
    holder = lock_holder(layout.root)
    if holder is None:
        return None
    try:
        report = codec_of(ProgressReport).decode(layout.progress.read_bytes())
    except (OSError, ValueError):
        return None
    return report if holder.startswith(f"pid {report.pid} ") else None


class ProgressFile:
    """The `Watcher` that keeps `progress.json`, as `with ProgressFile(path) as progress: ...`.

    The file exists from the first signal to the end of the block. Whether it can be written does
    not matter to the run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._phases: dict[tuple[str, str], PhaseStatus] = {}
        self._waiting: dict[str, float] = {}
        self._retried, self._limited = Counter[str](), Counter[str]()
        self._done = self._total = 0
        self._spent: Callable[[], Usage] = Usage
        self._lock = Lock()
        self._changed, self._over = ThreadEvent(), ThreadEvent()
        self._thread = Thread(target=self._work, name="skillopt-progress", daemon=True)

    def __enter__(self) -> ProgressFile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._changed.set()
        self._thread.join()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def follow(self, spent: Callable[[], Usage], *, done: int, total: int) -> None:
        """From now on, tell the cost and the operations of the plan as well."""
        with self._lock:
            self._spent, self._done, self._total = spent, done, total

    def __call__(self, event: Event | Signal) -> None:
        """Take in what happened; it is written soon."""
        with self._lock:
            match event:
                case PhaseOpened(move, phase, total):
                    self._phases[move, phase] = PhaseStatus(move, phase, 0, total)
                case Ticked(move, phase, how):
                    self._tick(move, phase, how)
                case PhaseClosed(move, phase):
                    self._phases.pop((move, phase), None)
                case Waiting(server, seconds, over):
                    self._waiting.pop(server, None)
                    if not over:
                        self._waiting[server] = seconds
                case Retried(role, limited):
                    self._retried[role] += 1
                    self._limited[role] += limited
                case _ if isinstance(event, Fact):
                    self._done += 1
                case _:
                    return
        self._changed.set()

    def _tick(self, move: str, phase: str, how: str) -> None:
        status = self._phases.get((move, phase))
        if status is not None:
            self._phases[move, phase] = replace(
                status,
                done=status.done + 1,
                reused=status.reused + (how == "reused"),
                failed=status.failed + (how == "failed"),
            )

    def _work(self) -> None:
        while self._changed.wait() and not self._over.is_set():
            self._changed.clear()
            with suppress(StoreError):  # a full disk is for the run itself to tell
                write_atomic(
                    self._path,
                    codec_of(ProgressReport).encode(self._report()) + b"\n",
                    durable=False,
                )
            self._over.wait(_PAUSE)

    def _report(self) -> ProgressReport:
        with self._lock:
            return ProgressReport(
                pid=os.getpid(),
                at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                done=self._done,
                total=self._total,
                phases=tuple(self._phases.values()),
                spent=self._spent(),
                waiting=dict(self._waiting),
                retried=dict(self._retried),
                limited=dict(+self._limited),
            )
