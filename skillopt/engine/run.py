"""The parts of a training run, and the operations that the loop is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace

from skillopt.aio import map_all
from skillopt.core.events import Begun, Decision, Fact, GateVerdict, Measured
from skillopt.core.ports import (
    CompleteGate,
    MetaReflector,
    Optimizer,
    Pruner,
    Reviewer,
    Shortener,
)
from skillopt.core.proposal import Candidate, Draft, Size
from skillopt.core.rollout import Evaluation
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Task
from skillopt.core.tokens import estimate
from skillopt.engine.candidate_evaluation import (
    CandidateEvaluation,
    CandidateResult,
    Replication,
    out_of_reach,
)
from skillopt.engine.halving import (
    Baseline,
    HalvingResult,
    ParentChoice,
    SuccessiveHalving,
    current,
)
from skillopt.engine.plan import Plan, Step
from skillopt.engine.prefetch import Prefetch
from skillopt.engine.rollouts import RolloutRunner
from skillopt.errors import StoreError


def alpha_share(alpha: float, gates: Sequence[str], state: State) -> float:
    """The chance of a false accept that the next decision may have.

    What is left of `alpha` is shared equally among the gates (moves, by id) that are still to
    come; a move that made no candidate, or could not have accepted any, leaves its part to the
    others. `alpha` counts for the run
    as it was begun: with more epochs than then, it grows in proportion.
    """
    left = sum(gate not in state.closed for gate in gates)
    begun = len(gates) if state.gates == 0 else state.gates
    total = alpha * max(1.0, len(gates) / max(1, begun))
    return max(0.0, total - state.spent) / max(1, left)


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
    speculation: Prefetch | None = None
    """None: nothing is attempted before it is needed."""
    race: SuccessiveHalving | None = None
    """For optimizers that draft several candidates; None: what is drafted meets the gate."""
    parents: ParentChoice = current
    soft_weight: float = 0.0
    """The metric of the run, for the record: how much soft scores count in it."""

    @property
    def sink(self) -> EventSink:
        """Where everything is written down."""
        return self.runner.sink

    def enter(self, move: str) -> None:
        """What follows is done for this move."""
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

    def prefetching(self, state: State, move: Step) -> AbstractAsyncContextManager[None]:
        """While a step is decided: begin the next one, as it will be if the skill stays."""
        following = None if self.plan.out_of_patience(state, more=1) else self.plan.after(move)
        if self.speculation is None or not isinstance(following, Step):
            return nullcontext()
        return self.speculation.of(following, self.parent(state, following.number).skill)

    def parent(self, state: State, step: int) -> Measured:
        """The skill that a step sets out from."""
        return self.parents(state.pool, step)

    async def fit(self, state: State, draft: Draft) -> Draft:
        """The same draft with candidates of a fitting size, where that can be had."""

        async def shorten(take: Candidate) -> Candidate:
            skill, size = await self.shorten(state, take.skill)
            return replace(take, skill=skill, size=size)

        return replace(draft, candidates=tuple(await map_all(shorten, draft.candidates)))

    async def choose(
        self, state: State, draft: Draft, practice: Baseline, step: int
    ) -> tuple[Draft, HalvingResult]:
        """The draft, led by the candidate that did best on the step's and a few val tasks."""
        known = {state.current.skill.digest, practice.measured.skill.digest}
        field: dict[str, Skill] = {}
        for take in draft.candidates:
            if take.fitting is not None and take.fitting.digest not in known:
                known.add(take.fitting.digest)
                field[take.name] = take.fitting
        if self.race is None or not field:
            return draft, HalvingResult(draft.leading.name)

        def worth(compared: int) -> bool:
            return self._hopeless(state, self.gate, compared) is None

        final = Baseline(self.val, state.current)
        halving = await self.race.run(field, practice, final, step, worth)
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
        evaluation_of_candidate = CandidateEvaluation(
            runner=self.runner,
            tasks=self.val,
            gate=gate,
            level=level / compared,
            replication=self.replication,
        )
        if hopeless is not None and self.replication.block:
            result = self._unheard(skill, origin, step, state.current, gate, hopeless)
        else:
            result = await evaluation_of_candidate.run(skill, origin, step, state.current)
        if hopeless is not None:
            # What is found does not depend on whether blocks of tasks spared the attempts.
            result = replace(result, verdict=replace(result.verdict, finding=hopeless.finding))
        spent = level if hopeless is None else 0.0
        decision = await self._conclude(state, result, evaluation_of_candidate)
        return replace(decision, level=spent, compared=compared)

    def _unheard(
        self,
        skill: Skill,
        origin: str,
        step: int,
        incumbent: Measured,
        gate: CompleteGate,
        verdict: GateVerdict,
    ) -> CandidateResult:
        """A verdict without an attempt."""
        tasks = [each.id for each in self.val]
        nothing = Evaluation(skill.digest, "val", {})
        value = gate.value(skill, nothing.granting(tasks))
        saved = len(tasks) * self.replication.replicates
        return CandidateResult(
            Measured(skill, nothing, value, origin, step), incumbent, verdict, saved
        )

    def _level(self, state: State, gate: CompleteGate) -> float:
        """The chance of a false accept that the next decision may have."""
        return alpha_share(gate.alpha, self._gates(), state) if gate.alpha else 0.0

    def _hopeless(self, state: State, gate: CompleteGate, compared: int) -> GateVerdict | None:
        """The verdict against every candidate now; None where one could be accepted."""
        level = self._level(state, gate) / compared
        tasks = [each.id for each in self.val]
        return out_of_reach(gate, self.replication, tasks, state.current, level)

    async def guide_best(self, state: State, decision: Decision, guidance: str) -> Decision:
        """Forced guidance goes into the best skill as well, measured like everything else."""
        best = state.best.skill
        if best.digest == state.current.skill.digest:
            return replace(decision, new_best=True)
        guided = best.with_guidance(guidance)
        if self.shortener and estimate(guided.render()) > self.shortener.limit:
            return decision
        rounds = range(self.replication.replicates)
        evaluation = await self.runner.measure(
            guided,
            "val",
            self.val,
            "evaluate",
            replicates=rounds,
            against=state.best,
        )
        value = self.slow_gate.value(guided, evaluation)
        known = decision.candidate
        return replace(decision, best=Measured(guided, evaluation, value, known.origin, known.step))

    async def _conclude(
        self, state: State, result: CandidateResult, evaluation_of_candidate: CandidateEvaluation
    ) -> Decision:
        gate = evaluation_of_candidate.gate
        candidate, verdict = result.candidate, result.verdict
        better = verdict.finding == "better"
        best = better
        if (better or gate.forced) and state.best.skill.digest != state.current.skill.digest:
            candidate = await self._beside(candidate, state.best, gate)
            best = (
                gate.judge(candidate, state.best, level=evaluation_of_candidate.level).finding
                == "better"
            )
        if gate.forced:
            action = "force_accept"
        else:
            action = ("accept_new_best" if best else "accept") if better else "reject"
        return Decision(
            candidate,
            action,
            verdict.reason + _own_failures(candidate),
            new_best=best,
            inconclusive=verdict.finding == "inconclusive",
            saved=result.saved,
            incumbent=None if result.incumbent is state.current else result.incumbent,
        )

    async def _beside(self, candidate: Measured, best: Measured, gate: CompleteGate) -> Measured:
        """The candidate, with what fails only with it and not with the best skill counted as 0."""
        skill, known = candidate.skill, candidate.evaluation
        rounds = range(self.replication.replicates)
        any_may_fail = self.runner.failure_counter(len(self.val) * len(rounds), 1.0)
        found = await self.runner.settle(known, skill, self.val, best, any_may_fail, rounds)
        if found is known:
            return candidate
        found = found.ordered([each.id for each in self.val])
        return replace(candidate, evaluation=found, value=gate.value(skill, found))

    def _gates(self) -> list[str]:
        """The moves of the plan that may bring a candidate before a gate that tests."""
        return self.plan.gated(steps=bool(self.gate.alpha), guidance=bool(self.slow_gate.alpha))

    def begin(self, initial: Measured) -> State:
        """Write down where the run starts."""
        begun = Begun(initial, self.identity, len(self._gates()), self.soft_weight)
        self.sink.fact(begun)
        return State.after(begun)

    def record(self, state: State, fact: Fact) -> State:
        """Write a fact down, then move to the state that it implies. The only way forward."""
        after = state.apply(fact)
        self.sink.fact(fact)
        return after


def _own_failures(candidate: Measured) -> str:
    own = len(candidate.evaluation.own_failures)
    if not own:
        return ""
    tasks = "1 task" if own == 1 else f"{own} tasks"
    return f"; {tasks} failed only with the candidate, counted as 0"


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
