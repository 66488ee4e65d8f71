"""The event log for readers: every event with the state before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skillopt.core.events import (
    Begun,
    Event,
    Fact,
    FinalTested,
    Finished,
    Progress,
    Started,
    Stepped,
    Stopped,
    Timed,
    Warned,
)
from skillopt.core.skill import Skill
from skillopt.core.state import State


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One fact in its place."""

    fact: Fact
    before: State
    """The same as `after` for the fact that opens the run."""
    after: State
    seconds: Mapping[str, float]
    """How long each phase took, over all processes that had a part in it."""

    @property
    def wall(self) -> float:
        """Seconds for the whole: as timed under `total`, or the sum of phases."""
        return self.seconds.get("total", sum(self.seconds.values()))


@dataclass(slots=True)
class RunHistory:
    """All chapters so far. What was timed since the last fact belongs to the next one."""

    entries: list[HistoryEntry] = field(default_factory=list[HistoryEntry])
    version: str = ""
    """Of the program that took the run up last."""
    prices: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Who says what each role costs, in the process that took the run up last."""
    stopped: Stopped | None = None
    """How the last process ended, if it ended before the plan did and told so."""
    finished: bool = False
    """Whether the plan is done."""
    warnings: list[str] = field(default_factory=list[str])
    """What was warned of, each once."""
    _seconds: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunHistory:
        """Read a record."""
        run_history = cls()
        for event in events:
            run_history.add(event)
        return run_history

    def add(self, event: Event) -> HistoryEntry | None:
        """Take in one more event; the chapter that it closes, if it closes one."""
        match event:
            case Timed(_, phase, seconds):
                self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds
            case Started(_, version, prices):
                self.version, self.prices = version, prices
                self.stopped, self.finished = None, False
            case Warned(text):
                if text not in self.warnings:
                    self.warnings.append(text)
            case Stopped():
                self.stopped = event
            case Finished():
                self.finished = True
            case Begun():
                state = State.after(event)
                return self._close(event, state, state)
            case _ if isinstance(event, Progress):
                # Earlier versions noted no end; where there is a test, it comes last.
                self.finished = self.finished or isinstance(event, FinalTested)
                before = self.state
                return None if before is None else self._close(event, before, before.apply(event))
            case _:
                pass
        return None

    @property
    def state(self) -> State | None:
        """Where the run stands; None when it has not begun."""
        return self.entries[-1].after if self.entries else None

    @property
    def steps(self) -> list[Stepped]:
        """All steps, oldest first."""
        return [each.fact for each in self.entries if isinstance(each.fact, Stepped)]

    @property
    def last_step(self) -> int:
        """Number of the last step; 0 before the first."""
        return self.steps[-1].step if self.steps else 0

    @property
    def versions(self) -> dict[int, Skill]:
        """The current skill after each step and what its epoch's end made of it; 0: the initial."""
        found: dict[int, Skill] = {}
        step = 0
        for entry in self.entries:
            if isinstance(entry.fact, Stepped):
                step = entry.fact.step
            found[step] = entry.after.current.skill
        return found

    def _close(self, fact: Fact, before: State, after: State) -> HistoryEntry:
        entry = HistoryEntry(fact, before, after, self._seconds)
        self._seconds = {}
        self.entries.append(entry)
        return entry
