"""The parts of a training run, and the operations that the loop is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain

from skillopt.aio import map_all
from skillopt.core.events import Begun, Decision, Fact, GateVerdict, Measured
from skillopt.core.memory import Memory
from skillopt.core.ports import CompleteGate, MetaReflector, Optimizer, Pruner, Reviewer, Shortener
from skillopt.core.proposal import Candidate, Draft, Size
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Task
from skillopt.core.tokens import estimate
from skillopt.engine.candidate_evaluation import (
    CandidateEvaluation,
    Replication,
    alpha_share,
    out_of_reach,
)
from skillopt.engine.halving import (
    Baseline,
    HalvingResult,
    ParentChoice,
    SuccessiveHalving,
    current,
)
from skillopt.engine.plan import FinalTest, Plan, Step
from skillopt.engine.prefetch import Prefetch
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """Everything a training run needs, chosen once by the composition root."""

    runner: RolloutRunner
    plan: Plan
    val: Sequence[Task]
    optimizer: Optimizer
    reviewer: Reviewer
    gate: CompleteGate
    slow_gate: CompleteGate
    """The gate for guidance at the end of an epoch."""
    guides_best: bool = False
    """Whether guidance is forced: into the current and the best skill, whatever it does to them."""
    meta_reflector: MetaReflector | None = None
    """For plans with meta reflections."""
    pruner: Pruner | None = None
    """For plans with pruning."""
    replication: Replication = field(default_factory=Replication)
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    """What settings are that a record does not name, because they are younger than it."""
    shortener: Shortener | None = None
    """None: a skill may be of any size."""
    early: Prefetch | None = None
    """For attempts that are needed whatever is decided; None: nothing is attempted early."""
    speculation: Prefetch | None = None
    """For attempts that are needed if the skill stays as it is; None: none is made by speculation.
    """
    halving: SuccessiveHalving | None = None
    """For optimizers that draft several candidates; None: what is drafted meets the gate."""
    parents: ParentChoice = current
    soft_weight: float = 0.0
    """The metric of the run, for the record: how much soft scores count in it."""
    memory: Memory = field(default_factory=Memory)
    """What is remembered of earlier runs: steps and lessons."""

    @property
    def sink(self) -> EventSink:
        return self.runner.sink

    def enter(self, move: str) -> None:
        self.sink.enter(move)
        self.runner.cache.enter(move)

    async def measure(self, skill: Skill) -> Measured:
        """Evaluate the initial skill on the validation tasks."""
        rounds = range(max(self.replication.replicates, self.replication.initial))
        evaluation = await self.runner.measure(
            skill, "val", self.val, "evaluate", replicates=rounds
        )
        return Measured(skill, evaluation, self.gate.value(skill, evaluation), "initial_skill", 0)

    async def shorten(self, state: State, skill: Skill | None) -> tuple[Skill | None, Size | None]:
        """A candidate, shortened if it is too long, and its size, which tells if it still is."""
        current = state.current.skill
        if skill is None or skill.digest == current.digest:
            return skill, None
        before, drafted = estimate(current.render()), estimate(skill.render())
        limit = self.shortener.limit if self.shortener else 0
        size = Size(before=before, drafted=drafted, after=drafted, limit=limit)
        if self.shortener is None or drafted <= limit:
            return skill, size
        shorter, problem = await self.shortener.shorten(skill)
        return shorter, replace(size, after=estimate(shorter.render()), problem=problem)

    def early_first_step(self, initial: Skill) -> AbstractAsyncContextManager[None]:
        """While the initial skill is evaluated: begin the first step, if no memory changes it."""
        first = next(iter(self.plan.moves), None)
        if self.early is None or not isinstance(first, Step) or self.memory.steps:
            return nullcontext()
        tasks = list(chain(*first.batches))
        return self.early.of(first.id, self.runner.specs(initial, tasks), due_next=True)

    def early_final_test(self, state: State) -> AbstractAsyncContextManager[None]:
        """While the skill is trained: begin the final test of the initial one."""
        last = self.plan.moves[-1] if self.plan.moves else None
        if self.early is None or not isinstance(last, FinalTest) or last.settled(state):
            return nullcontext()
        rounds = range(self.replication.replicates)
        return self.early.of(last.id, self.runner.specs(state.initial.skill, last.tasks, rounds))

    def speculative_step(self, foreseen: State, move: Step) -> AbstractAsyncContextManager[None]:
        """While a step is decided: begin the next one, from the state that is expected."""
        following = self.plan.step_after(move)
        if self.speculation is None or following is None or self.plan.out_of_patience(foreseen):
            return nullcontext()
        due = self.plan.due(following, foreseen)
        skill = self.parent(foreseen, due.number).skill
        specs = self.runner.specs(skill, list(chain(*due.batches)))
        return self.speculation.of(due.id, specs)

    def likely_decision(
        self, state: State, draft: Draft, origin: str, step: int
    ) -> Decision | None:
        """What the gate is expected to say, before anything is measured.

        A candidate that has repaired tasks while it was made is usually accepted, any other is not,
        unless the gate accepts everything.
        """
        skill = draft.leading.fitting
        if skill is None or skill.digest == state.current.skill.digest:
            return None
        candidate = replace(state.current, skill=skill, origin=origin, step=step)
        likely = self.gate.forced or draft.repaired
        return Decision(candidate, "accept" if likely else "reject", "")

    def parent(self, state: State, step: int) -> Measured:
        """The skill that a step sets out from."""
        return self.parents(state.pool, step)

    async def fit(self, state: State, draft: Draft) -> Draft:
        """The same draft with candidates of a fitting size, where that can be had."""

        async def shorten(candidate: Candidate) -> Candidate:
            skill, size = await self.shorten(state, candidate.skill)
            return replace(candidate, skill=skill, size=size)

        return replace(draft, candidates=tuple(await map_all(shorten, draft.candidates)))

    async def choose(
        self, state: State, draft: Draft, practice: Baseline, step: int
    ) -> tuple[Draft, HalvingResult]:
        """The draft, led by the candidate that did best on the step's and a few val tasks."""
        seen = {state.current.skill.digest, practice.measured.skill.digest}
        skills: dict[str, Skill] = {}
        for candidate in draft.candidates:
            if candidate.fitting is not None and candidate.fitting.digest not in seen:
                seen.add(candidate.fitting.digest)
                skills[candidate.name] = candidate.fitting
        if self.halving is None or not skills:
            return draft, HalvingResult(draft.leading.name)

        def worth(compared: int) -> bool:
            return self._hopeless(state, self.gate, compared) is None

        final = Baseline(self.val, state.current)
        halving = await self.halving.run(skills, practice, final, step, worth)
        return draft if halving.ahead is None else draft.leading_with(halving.ahead), halving

    async def decide(
        self,
        state: State,
        skill: Skill | None,
        origin: str,
        step: int,
        gate: CompleteGate,
        *,
        compared: int = 1,
    ) -> Decision | None:
        """Measure a candidate and ask the gate: the only door through which the skill changes.

        Text equal to the current skill is no candidate. The best of several candidates that were
        `compared` on the same tasks has had as many chances to be lucky, so it must be that much
        surer. A decision that could not accept whatever is measured takes no attempts, and spends
        nothing of `alpha`.
        """
        if skill is None or skill.digest == state.current.skill.digest:
            return None
        level = self._level(state, gate)
        hopeless = self._hopeless(state, gate, compared)
        evaluation = CandidateEvaluation(
            runner=self.runner,
            tasks=self.val,
            gate=gate,
            level=level / compared,
            replication=self.replication,
        )
        if hopeless is not None and self.replication.block:
            result = evaluation.spare(skill, origin, step, state.current, hopeless)
        else:
            result = await evaluation.run(skill, origin, step, state.current)
        if hopeless is not None:
            # What is found does not depend on whether blocks of tasks spared the attempts.
            result = replace(result, verdict=replace(result.verdict, finding=hopeless.finding))
        decision = await evaluation.conclude(result, state.current, state.best)
        return replace(decision, level=level if hopeless is None else 0.0, compared=compared)

    def _level(self, state: State, gate: CompleteGate) -> float:
        """The chance of a false accept that the next decision may have."""
        return alpha_share(gate.alpha, self._gates(), state) if gate.alpha else 0.0

    def _hopeless(self, state: State, gate: CompleteGate, compared: int) -> GateVerdict | None:
        """The verdict against every candidate now; None where one could be accepted."""
        level = self._level(state, gate) / compared
        tasks = [task.id for task in self.val]
        return out_of_reach(gate, self.replication, tasks, state.current, level)

    async def guide_best(self, state: State, decision: Decision, guidance: str) -> Decision:
        """Forced guidance goes into the best skill as well, measured like everything else."""
        best = state.best.skill
        if best.digest == state.current.skill.digest:
            return replace(decision, new_best=True)
        guided = best.with_guidance(guidance)
        if self.shortener and estimate(guided.render()) > self.shortener.limit:
            return decision
        replicates = range(self.replication.replicates)
        evaluation = await self.runner.measure(
            guided, "val", self.val, "evaluate", replicates=replicates, against=state.best
        )
        value = self.slow_gate.value(guided, evaluation)
        origin, step = decision.candidate.origin, decision.candidate.step
        return replace(decision, best=Measured(guided, evaluation, value, origin, step))

    def _gates(self) -> list[str]:
        """The moves of the plan that may bring a candidate before a gate that tests."""
        return self.plan.gated(steps=bool(self.gate.alpha), guidance=bool(self.slow_gate.alpha))

    def begin(self, initial: Measured) -> State:
        begun = Begun(
            initial,
            self.identity,
            len(self._gates()),
            self.soft_weight,
            self.memory.steps,
            self.memory.lessons,
        )
        self.sink.fact(begun)
        return State.after(begun)

    def record(self, state: State, fact: Fact) -> State:
        """Write a fact down, then move to the state that it implies. The only way forward."""
        after = state.apply(fact)
        self.sink.fact(fact)
        return after


def check_same_run(
    mine: Mapping[str, str], theirs: Mapping[str, str], defaults: Mapping[str, str]
) -> None:
    """Refuse to continue a record whose identity is not that of this run."""
    theirs = {**{key: defaults[key] for key in mine if key in defaults}, **theirs}
    changed = [
        f"  {key}: {' there, '.join(_differing(theirs.get(key), mine.get(key)))} now"
        for key in sorted({*mine, *theirs})
        if mine.get(key) != theirs.get(key)
    ]
    if changed:
        listed = "\n".join(changed)
        message = (
            f"this directory holds a run with other settings:\n{listed}\n"
            "Choose another env.out_root, or restore these settings to resume the run."
        )
        raise StoreError(message)


def _differing(there: str | None, now: str | None) -> tuple[str, str]:
    """Two values; of two fingerprints with the same parts, the parts that are not alike."""
    if there is None or now is None:
        return there or "absent", now or "absent"
    pairs = list(zip(there.split("/"), now.split("/"), strict=False))
    if there.count("/") != now.count("/") or len(pairs) == 1:
        return there, now
    unlike = [pair for pair in pairs if pair[0] != pair[1]]
    return "/".join(old for old, _ in unlike), "/".join(new for _, new in unlike)
