"""How far a run is, in numbers and in half a line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from skillopt.analysis.report import metric_of
from skillopt.cli.formatting import dollars, duration, short, spelt
from skillopt.core.chat import Usage
from skillopt.core.events import Begun, Event, Fact, PhaseOpened, Signal, Ticked
from skillopt.core.rules import rules_in
from skillopt.core.state import State
from skillopt.engine.plan import EpochEnd, FinalTest, MetaReflection, Move, Plan, Pruning, Step
from skillopt.gates.compared import Metric
from skillopt.model.budget import Meter

_ENOUGH = 10
"""Attempts before a pace is worth telling."""


@dataclass(slots=True)
class PhaseProgress:
    """One phase under way."""

    name: str
    total: int
    """0: not known."""
    done: int = 0
    reused: int = 0
    failed: int = 0
    scores: list[float] = field(default_factory=list[float])

    def tick(self, tick: Ticked) -> None:
        """One more unit is done."""
        self.done += 1
        self.reused += tick.how == "reused"
        self.failed += tick.how == "failed"
        if tick.score is not None:
            self.scores.append(tick.score)

    @property
    def amount(self) -> str:
        """`12/40`, or `12 done` when the size is not known."""
        return f"{self.done}/{self.total}" if self.total else f"{self.done} done"

    @property
    def remarks(self) -> str:
        """The mean score so far, and what was not plainly done."""
        mean = f"mean {sum(self.scores) / len(self.scores):.2f}" if self.scores else ""
        reused = f"{self.reused} reused" if self.reused else ""
        failed = f"{self.failed} failed" if self.failed else ""
        return ", ".join(part for part in (mean, reused, failed) if part)


@dataclass(slots=True)
class RunProgress:
    """The whole plan, measured in attempts: those done, those left, and how fast they go."""

    plan: Plan
    val: int
    """How many tasks a candidate is measured on."""
    meter: Meter
    state: State | None
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    in_move: int = 0
    """Attempts since the last fact."""
    fresh: int = 0
    """Attempts of this process that were not kept from an earlier one."""

    def __post_init__(self) -> None:
        """Time runs from now."""
        self.started = self.clock()

    def add(self, event: Event | Signal) -> None:
        """Take in what happened."""
        match event:
            case Ticked(score=score, how=how) if score is not None or how == "failed":
                self.in_move += 1
                self.fresh += how != "reused"
            case Begun():
                self.state, self.in_move = State.after(event), 0
            case _ if isinstance(event, Fact) and self.state is not None:
                self.state, self.in_move = self.state.apply(event), 0
            case _:
                pass

    @property
    def metric(self) -> Metric:
        """What scores of the run are told in."""
        return Metric() if self.state is None else metric_of(self.state)

    @property
    def steps(self) -> int:
        """Steps in the whole plan."""
        return sum(isinstance(move, Step) for move in self.plan.moves)

    @property
    def spent(self) -> Usage:
        """What was paid so far."""
        return self.meter.total

    @property
    def total(self) -> int:
        """Attempts in the whole plan."""
        return self.val + sum(self._size(move) for move in self.plan.moves)

    @property
    def done(self) -> int:
        """Attempts behind us, reused ones included."""
        state = self.state
        if state is None:
            return min(self.in_move, self.val)
        left = self.plan.left(state)
        under_way = min(self.in_move, self._size(left[0])) if left else 0
        return self.total - sum(map(self._size, left)) + under_way

    @property
    def left(self) -> float | None:
        """Seconds to the end at the pace so far; None while that is a guess."""
        if self.fresh < _ENOUGH:
            return None
        return (self.clock() - self.started) / self.fresh * (self.total - self.done)

    def phase(self, opened: PhaseOpened) -> str:
        """A phase in words: `test ab12cd` names a skill by its digest."""
        kind, _, digest = opened.phase.partition(" ")
        state = self.state
        if kind != "test" or state is None:
            return spelt(opened.phase)
        names = {"last": state.current, "best": state.best, "initial": state.initial}
        named = [each for each, skill in names.items() if skill.skill.digest.startswith(digest)]
        return f"test, {named[-1]} skill" if named else "test"

    def _size(self, move: Move) -> int:
        match move:
            case Step(batches=batches):
                return sum(map(len, batches)) + self.val
            case MetaReflection():
                return self.val
            case Pruning(tasks=tasks):
                rules = len(rules_in(self.state.current.skill)) if self.state else 0
                return len(tasks) * (1 + rules) + self.val
            case EpochEnd(tasks=tasks):
                return 2 * len(tasks) + self.val if tasks else 0
            case FinalTest(tasks=tasks):
                return 3 * len(tasks)


SEPARATOR = " · "


def outlook(headway: RunProgress) -> str:
    """Scores, cost and time left."""
    state, spent = headway.state, headway.spent
    best = f"best {state.best.value:.3f} ({headway.metric.name}, val)" if state else ""
    left = "" if headway.left is None else f"{duration(headway.left)} left"
    tokens = f"{short(spent.calls)} calls, {short(spent.input + spent.output)} tokens"
    money = dollars(spent) if spent.dollars else ""
    now = f"now {state.current.value:.3f}" if state and state.current != state.best else ""
    return SEPARATOR.join(part for part in (now, best, left, money, tokens) if part)
