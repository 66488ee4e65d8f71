"""Shows a run as it happens: a line per fact, and bars on a terminal or plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from rich.text import Text

from skillopt.analysis.report import metric_of
from skillopt.cli.formatting import (
    became,
    candidates_raced,
    count,
    dollars,
    duration,
    edits,
    growth,
    repeats,
    scored,
    short,
    spelt,
    train_score,
)
from skillopt.cli.render import Screen
from skillopt.core.events import (
    Begun,
    Event,
    Fact,
    FinalTested,
    PhaseOpened,
    Prefetched,
    Signal,
    Ticked,
    Timed,
    Waiting,
)
from skillopt.core.facts import Drafted, EpochClosed, MetaReflected, Pruned, Stepped
from skillopt.core.rules import rules_in
from skillopt.core.state import State
from skillopt.engine.plan import EpochEnd, FinalTest, MetaReflection, Move, Plan, Pruning, Step
from skillopt.gates.compared import Metric
from skillopt.model.budget import Meter
from skillopt.progress import PhaseProgress, PhaseWatcher, heartbeat

_ENOUGH = 10
"""Attempts before a pace is worth telling."""
SEPARATOR = " · "


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
    total: int = field(init=False)
    """Attempts in the whole plan."""
    _behind: int = field(init=False)
    """Attempts of the moves that are closed."""
    _due: int = field(init=False)
    """Attempts of the move under way."""

    def __post_init__(self) -> None:
        self.started = self.clock()
        self._look()

    def add(self, event: Event | Signal) -> None:
        match event:
            case Ticked(score=score, how=how) if score is not None or how == "failed":
                self.in_move += 1
                self.fresh += how != "reused"
            case Begun():
                self.state, self.in_move = State.after(event), 0
                self._look()
            case _ if isinstance(event, Fact) and self.state is not None:
                self.state, self.in_move = self.state.apply(event), 0
                self._look()
            case _:
                pass

    def _look(self) -> None:
        """How much of the plan is done; that changes with facts only."""
        state = self.state
        left = [self.val] if state is None else list(map(self._size, self.plan.left(state)))
        self.total = self.val + sum(map(self._size, self.plan.moves))
        self._due = left[0] if left else 0
        self._behind = 0 if state is None else self.total - sum(left)

    @property
    def metric(self) -> Metric:
        return Metric() if self.state is None else metric_of(self.state)

    @property
    def steps(self) -> int:
        return sum(isinstance(move, Step) for move in self.plan.moves)

    @property
    def done(self) -> int:
        """Attempts behind us, reused ones included."""
        return self._behind + min(self.in_move, self._due)

    @property
    def left(self) -> float | None:
        """Seconds to the end at the pace so far; None while that is a guess."""
        if self.fresh < _ENOUGH:
            return None
        return (self.clock() - self.started) / self.fresh * (self.total - self.done)

    @property
    def outlook(self) -> str:
        """Scores, cost and time left."""
        state, spent = self.state, self.meter.total
        best = f"best {state.best.value:.3f} ({self.metric.name}, val)" if state else ""
        left = "" if self.left is None else f"{duration(self.left)} left"
        tokens = f"{short(spent.calls)} calls, {short(spent.input + spent.output)} tokens"
        money = dollars(spent) if spent.dollars else ""
        now = f"now {state.current.value:.3f}" if state and state.current != state.best else ""
        return SEPARATOR.join(filter(None, (now, best, left, money, tokens)))

    def phase(self, opened: PhaseOpened) -> str:
        """A phase in words: `test ab12cd` names a skill by its digest."""
        kind, _, digest = opened.phase.partition(" ")
        state = self.state
        if kind != "test" or state is None:
            return spelt(opened.phase)
        names = {"last": state.current, "best": state.best, "initial": state.initial}
        named = [name for name, held in names.items() if held.skill.digest.startswith(digest)]
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


class Reporter(PhaseWatcher):
    """The `Watcher` of the command line: a line per fact, and lines about phases."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(screen.tell, clock)
        self._screen = screen
        self.run: RunProgress | None = None
        """Set this to tell how far the whole run is, and each of its facts."""

    def __call__(self, event: Event | Signal) -> None:
        with suppress(OSError):  # a terminal that went away does not end a run
            if self.run is not None:
                self.run.add(event)
                if isinstance(event, Fact):
                    self._screen.tell(line_for(event, self.run.steps, self.run.metric))
            match event:
                case Timed(move, name, seconds) if phase := self._phases.get((move, name)):
                    self.finished(phase, seconds)
                case Waiting(server, seconds, over):
                    self._screen.tell(_outage(server, seconds, over=over))
                case Prefetched(move, attempts):
                    prefetched = f"{count(attempts, 'attempt')} of {spelt(move)}"
                    self._screen.tell(f"  {'speculate':<19} {prefetched}")
                case _:
                    super().__call__(event)

    def named(self, opened: PhaseOpened) -> str:
        return opened.phase if self.run is None else self.run.phase(opened)

    @property
    def outlook(self) -> str:
        return "" if self.run is None else self.run.outlook

    def finished(self, phase: PhaseProgress, seconds: float) -> None:
        """Called when a phase was brought to its end: a line, unless there was nothing to do."""
        if phase.done:
            self.line(phase, phase.remarks, duration(seconds))

    def pulse(self) -> None:
        with suppress(OSError):
            super().pulse()


@contextmanager
def reporting(screen: Screen) -> Generator[Reporter, None, None]:
    """A watcher that suits the screen."""
    if not screen.live:
        reporter = Reporter(screen)
        with heartbeat(reporter.pulse):
            yield reporter
        return
    # Imported where it is drawn: most of the time of a short command would go into loading it.
    from skillopt.cli.bars import drawn

    with drawn(screen) as reporter:
        yield reporter


def _outage(server: str, seconds: float, *, over: bool) -> str:
    if over:
        return f"  {server} answers again after {duration(seconds)}"
    return f"  waiting for the server: {server} is down (waits up to model.outage_seconds)"


def line_for(fact: Fact, steps: int, metric: Metric) -> Text:
    """What happened, in a run of so many steps and by its metric."""
    match fact:
        case Begun(initial):
            return Text(f"initial skill: val {scored(initial.evaluation, metric)}")
        case Stepped():
            return _step(fact, steps)
        case MetaReflected():
            line = Text(f"meta reflect, epoch {fact.epoch}")
            return _tried(line, fact)
        case Pruned():
            return _pruning(fact)
        case EpochClosed():
            return _epoch(fact)
        case FinalTested(initial=initial, best=best):
            first = f"initial skill {metric(initial):.3f}"
            return Text(f"final test: {first}, best skill {scored(best, metric)}")
        case _:
            return Text(spelt(fact.move))


def _step(fact: Stepped, steps: int) -> Text:
    score = train_score(fact)
    line = Text(f"step {fact.step}/{steps}  epoch {fact.epoch}  ")
    line.append("train  n/a" if score is None else f"train {score:.3f}")
    return _tried(line, fact)


def _tried(line: Text, fact: Drafted) -> Text:
    """The edits that were tried, and what the gate made of them."""
    if fact.action != "skip_no_patches":
        line.append(f"  edits {edits(fact)}")
    if several := candidates_raced(fact):
        line.append(f"  {several}")
    if dropped := repeats(fact):
        line.append(f"  {dropped}", style="dim")
    if fact.draft.reminders is not None and fact.draft.reminders.added:
        line.append(f"  reminders {len(fact.draft.reminders.added)}")
    if fact.draft.leading.size is not None:
        line.append(f"  tokens {growth(fact.draft.leading.size)}")
    words, colour = became(fact)
    if fact.decision is not None:
        line.append(f"  val {fact.decision.reason}")
    line.append(f"  {words}", style=colour)
    return line


def _pruning(fact: Pruned) -> Text:
    line = Text(f"prune, epoch {fact.epoch}  rules {len(fact.cut.worths)}")
    if fact.decision is not None:
        line.append(f"  without effect {len(fact.cut.rules)}  val {fact.decision.reason}")
    words, colour = became(fact)
    return line.append(f"  {words}", style=colour)


def _epoch(fact: EpochClosed) -> Text:
    line = Text(f"end of epoch {fact.epoch}")
    if fact.decision is not None:
        words, colour = became(fact)
        line.append(f"; guidance  val {fact.decision.reason}")
        line.append(f"  {words}", style=colour)
    if fact.size is not None and fact.size.too_long:
        line.append("; the guidance would make the skill too long", style="yellow")
    if fact.review.lessons is not None:
        line.append("; meta skill updated")
    for problem in fact.review.problems:
        line.append(f"; {problem}", style="yellow")
    return line
