"""The live parts of a training run, and the verbs that the loop is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from skillopt.core.events import Begun, Decision, Measured, Progress
from skillopt.core.journal import Journal
from skillopt.core.ports import Gate, MetaReflector, Optimizer, Pruner, Reviewer, Shortener
from skillopt.core.proposal import Size
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Task
from skillopt.core.tokens import estimate
from skillopt.engine.bench import Bench
from skillopt.engine.hearing import Heard, Hearing, Sampling
from skillopt.engine.plan import EpochEnd, MetaReflection, Plan, Step
from skillopt.engine.speculation import Speculation
from skillopt.engine.spending import share
from skillopt.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a training run needs, chosen once by the composition root."""

    bench: Bench
    plan: Plan
    val: Sequence[Task]
    optimizer: Optimizer
    reviewer: Reviewer
    gate: Gate
    slow_gate: Gate
    """The gate for guidance at the end of an epoch."""
    meta_reflector: MetaReflector | None = None
    """For plans with meta reflections."""
    pruner: Pruner | None = None
    """For plans with pruning."""
    sampling: Sampling = field(default_factory=Sampling)
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    """What settings are that a record does not name, because they are younger than it."""
    shortener: Shortener | None = None
    """None: a skill may be of any size."""
    speculation: Speculation | None = None
    """None: nothing is attempted before it is needed."""

    @property
    def journal(self) -> Journal:
        """Where everything is written down."""
        return self.bench.journal

    def enter(self, move: str) -> None:
        """What follows is done for this move."""
        self.journal.enter(move)
        self.bench.work.enter(move)

    async def measure(self, skill: Skill) -> Measured:
        """Evaluate the initial skill on the validation tasks."""
        rounds = range(max(self.sampling.replicates, self.sampling.initial))
        evaluation = await self.bench.measure(skill, "val", self.val, "evaluate", replicates=rounds)
        return Measured(skill, evaluation, self.gate.value(skill, evaluation), "initial_skill", 0)

    async def fit(self, state: State, skill: Skill | None) -> tuple[Skill | None, Size | None]:
        """A candidate, shortened if it is too long, and its size, which tells if it still is."""
        current = state.current.skill
        if skill is None or skill.digest == current.digest:
            return skill, None
        before, drafted = estimate(current.render()), estimate(skill.render())
        if self.shortener is None or drafted <= self.shortener.limit:
            limit = self.shortener.limit if self.shortener else 0
            return skill, Size(before=before, drafted=drafted, after=drafted, limit=limit)
        shorter, problem = await self.shortener.shorten(skill)
        size = Size(
            before=before,
            drafted=drafted,
            after=estimate(shorter.render()),
            limit=self.shortener.limit,
            problem=problem,
        )
        return shorter, size

    def meanwhile(self, skill: Skill, move: Step) -> AbstractAsyncContextManager[None]:
        """While a step is decided: begin the next one, as it will be if the skill stays."""
        following = self.plan.after(move)
        if self.speculation is None or not isinstance(following, Step):
            return nullcontext()
        return self.speculation.of(following, skill)

    async def decide(
        self, state: State, skill: Skill | None, origin: str, step: int, gate: Gate
    ) -> Decision | None:
        """Measure a candidate and ask the gate: the only door through which the skill changes.

        Text equal to the current skill is no candidate.
        """
        if skill is None or skill.digest == state.current.skill.digest:
            return None
        level = share(gate.alpha, self._gates(), state) if gate.alpha else 0.0
        hearing = Hearing(
            bench=self.bench,
            tasks=self.val,
            gate=gate,
            level=level,
            sampling=self.sampling,
        )
        heard = await hearing.hold(skill, origin, step, state.current)
        return self._conclude(state, heard, gate, level)

    def _conclude(self, state: State, heard: Heard, gate: Gate, level: float) -> Decision:
        candidate, verdict = heard.candidate, heard.verdict
        better = verdict.finding == "better"
        best = better
        if (better or gate.forced) and state.best.skill.digest != state.current.skill.digest:
            best = gate.judge(candidate, state.best, level=level).finding == "better"
        if gate.forced:
            action = "force_accept"
        else:
            action = ("accept_new_best" if best else "accept") if better else "reject"
        return Decision(
            candidate,
            action,
            verdict.reason,
            new_best=best,
            inconclusive=verdict.finding == "inconclusive",
            level=level,
            saved=heard.saved,
            incumbent=None if heard.incumbent is state.current else heard.incumbent,
        )

    def _gates(self) -> list[str]:
        """The moves of the plan that may bring a candidate before a gate that tests."""
        return [
            move.id
            for move in self.plan.moves
            if (isinstance(move, Step | MetaReflection) and self.gate.alpha)
            or (isinstance(move, EpochEnd) and move.tasks and self.slow_gate.alpha)
        ]

    def begin(self, initial: Measured) -> State:
        """Write down where the run starts."""
        begun = Begun(initial, self.identity, len(self._gates()))
        self.journal.fact(begun)
        return State.after(begun)

    def record(self, state: State, fact: Progress) -> State:
        """Write a fact down, then move to the state that it implies. The only way forward."""
        after = state.apply(fact)
        self.journal.fact(fact)
        return after


def recognise(
    mine: Mapping[str, str], theirs: Mapping[str, str], defaults: Mapping[str, str]
) -> None:
    """Refuse to continue a record whose identity is not that of this run."""
    theirs = {**{key: defaults[key] for key in mine if key in defaults}, **theirs}
    changed = [
        f"  {key}: {theirs.get(key, 'absent')} there, {mine.get(key, 'absent')} now"
        for key in sorted({*mine, *theirs})
        if mine.get(key) != theirs.get(key)
    ]
    if changed:
        listed = "\n".join(changed)
        message = (
            f"this directory holds a run with other settings:\n{listed}\n"
            "Choose another env.out_root, or restore these settings to continue."
        )
        raise StoreError(message)
