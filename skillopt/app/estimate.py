"""Estimates what a run will cost, from its plan, its data and its prompts.

The lower bound has only the calls that every run makes. The upper bound has every optional call
once, a full evaluation of every candidate, and a skill that grows with every step. The expected
value assumes that most steps have a candidate that is measured once, and a part of the optional
calls.
Tokens are characters / 4. The length and the speed of answers are assumptions: see
`answer_tokens` and `app/speed.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from skillopt.aio import map_all
from skillopt.app.costs import CostLine, Estimate, summed_lines
from skillopt.app.environment import validation_tasks
from skillopt.app.gating import halving_schedule, replication
from skillopt.app.optimizing import OptimizerParts, planned_parts
from skillopt.app.run_spec import RunSpec
from skillopt.app.speculating import speculates
from skillopt.app.speed import Speed, speed_of
from skillopt.config.schema import Role, RoleModel
from skillopt.core.costs import NONE, PartCost, Range, StepSize
from skillopt.core.rules import rules_in
from skillopt.core.task import Task
from skillopt.core.tokens import estimate as tokens_in
from skillopt.engine.candidate_evaluation import Replication
from skillopt.engine.plan import EpochEnd, FinalTest, MetaReflection, Move, Pruning, Step
from skillopt.errors import EnvironmentFault, attributed_to

_PROBES = 20
"""Tasks of which the request is looked at."""
_ANSWERS: Mapping[Role, Range] = {
    "target": Range(10, 500, 100),
    "optimizer": Range(150, 2000, 500),
    "judge": Range(10, 500, 100),
}
"""Tokens of an answer, as far as max_tokens allows."""
_FILLED = 0.25
"""Share of max_tokens that an answer takes, as a rule, where the limit is low."""
CANDIDATES = 0.6
"""Share of steps that bring a candidate before the gate, as a rule."""
_AGAIN = 0.75
"""Share of rollouts in later epochs that are made anew, because the skill has changed."""
_SHOWN = 0.15
"""Share of the most that a question shows of attempts and memory, as a rule."""
_SELDOM = 0.25
"""Share of what comes up only now and then."""
_FRAME = 20
"""Tokens around a request or an attempt."""
_JUDGED = 300
"""Tokens of a judge's instructions."""
_EDIT = 40
"""Tokens that an edit adds to a skill at most, as a rule."""
_KEPT = 0.25
"""Share of the edits that a step may make by which the skill grows, as a rule."""
_UNSOLVED = 0.3
"""Share of the tasks that a later epoch looks at where solved ones are not attempted again."""
_MEMORY = 4000
"""Tokens of lessons and history at most."""


async def estimate(spec: RunSpec) -> Estimate:
    """Look at the data and the prompts; no model is asked."""
    outlook = await cost_model(spec)
    lines = [*outlook.start(), *outlook.moves(spec.plan.moves)]
    return Estimate(tuple(summed_lines(lines)), spec.prices, spec.warnings)


async def cost_model(spec: RunSpec) -> CostModel:
    """Look at the data; the skill is the one that the run starts or goes on with."""
    models: dict[Role, RoleModel] = {role: spec.config.model.role(role) for role in spec.roles}
    return CostModel(
        spec,
        {role: answer_tokens(model) for role, model in models.items()},
        {role: speed_of(model) for role, model in models.items()},
        *await _request_tokens(spec),
        planned_parts(spec.config),
        replication(spec.config),
        len(validation_tasks(spec.config, spec.environment)),
    )


@dataclass(frozen=True, slots=True)
class CostModel:
    """A run phase by phase, as it lies ahead."""

    spec: RunSpec
    answers: Mapping[Role, Range]
    speeds: Mapping[Role, Speed]
    shared: float
    """Tokens of a task that all tasks have in common, besides the skill: the instructions."""
    own: float
    """Those that differ from task to task, on average."""
    parts: OptimizerParts
    evidence: Replication
    val: int

    def start(self) -> Iterator[CostLine]:
        """What comes before the first move."""
        for role in self.spec.roles:
            if role not in self.spec.supplied.models:
                yield CostLine("preflight", role, Range(1, 1), Range(4, 40), Range(1, 16))
        first = self.val * max(self.evidence.replicates, self.evidence.initial)
        yield from self._attempts("initial skill on val", Range(first, first), NONE)

    def moves(self, moves: Sequence[Move], fruitless: int = 0) -> Iterator[CostLine]:
        """Every phase of these moves, after so many steps in a row that changed nothing."""
        chances = _Chances(self.spec.plan.patience, fruitless)
        edits = NONE
        for move in moves:
            if isinstance(move, FinalTest):
                once = len(move.tasks) * self.evidence.replicates
                yield from self._attempts("final test", Range(once, 3 * once, 2 * once), edits)
                continue
            sure, chance = chances.sure, chances.coming
            for line in self._move(move, edits):
                yield line if sure else line.perhaps(chance)
            if isinstance(move, Step):
                chances.step()
            edits += self._grown(move).perhaps(chance)

    def _move(self, move: Move, edits: Range) -> Iterator[CostLine]:
        """What a move takes, after so many edits."""
        grown = edits + self._grown(move)
        match move:
            case Step():
                yield from self._step(move, self._size(move.batches, move.budget), edits)
                yield from self._candidate(grown, self.spec.config.optimizer.candidates)
                yield from self._ahead(self.spec.plan.step_after(move), grown)
            case MetaReflection():
                size = self._size((), move.budget)
                if self.parts.meta_reflector is not None:
                    yield from self._told(self.parts.meta_reflector.cost(size), edits)
                yield from self._candidate(grown, 1)
            case Pruning(tasks=tasks):
                yield from self._pruning(len(tasks), edits)
                yield from self._candidate(edits, 0)
            case EpochEnd():
                yield from self._epoch(move, edits)
            case FinalTest():
                return

    def _grown(self, move: Move) -> Range:
        """By how many edits the skill is longer after a move."""
        match move:
            case Step():
                most = self.parts.optimizer.used(self._size(move.batches, move.budget))
            case MetaReflection():
                most = self._size((), move.budget).allowed
            case _:
                most = 0
        return Range(0, most, most * _KEPT)

    def _size(self, batches: Sequence[Sequence[Task]], budget: int | None = None) -> StepSize:
        gradient = self.spec.config.gradient
        attempt = self.shared + self.own + self.answers["target"].high + 3 * _FRAME
        most = gradient.trajectory_tokens
        return StepSize(
            batches=batches,
            budget=budget,
            attempt_tokens=min(attempt, most) if most else attempt,
            evidence_tokens=gradient.evidence_tokens,
            unscored=self.spec.config.evaluation.max_failure_share,
        )

    def _told(self, costs: Iterable[PartCost], edits: Range) -> Iterator[CostLine]:
        """What the parts tell, in tokens and time."""
        for cost in costs:
            if cost.prompt or cost.role == "optimizer":
                yield self._question(cost, edits)
            elif cost.idle:
                yield from self._idly(cost.phase, cost.calls, edits + cost.edits)
            else:
                yield from self._attempts(cost.phase, cost.calls, edits + cost.edits)

    def _idly(self, phase: str, count: Range, edits: Range) -> Iterator[CostLine]:
        """Attempts by idle workers, for which nobody waits."""
        for line in self._attempts(phase, count, edits):
            yield replace(line, seconds=NONE)

    def _step(self, move: Step, size: StepSize, edits: Range) -> Iterator[CostLine]:
        rollouts, costs = Range(size.tasks, size.tasks), self.parts.optimizer.cost(size)
        if move.epoch > 1:
            # All attempts are known already if the skill has not changed meanwhile.
            rollouts = rollouts.perhaps(_AGAIN)
            if not self.spec.config.train.repeat_solved:
                rollouts = rollouts.perhaps(_UNSOLVED)
                costs = (cost.perhaps(_UNSOLVED) for cost in costs)
        yield from self._attempts("rollout", rollouts, edits)
        yield from self._told(costs, edits)
        halving = halving_schedule(self.spec.config)
        if halving is None or move.budget == 0:
            return
        candidates = self.spec.config.optimizer.candidates
        screened, compared = halving.most_attempts(candidates, size.tasks, self.val)
        grown = edits + self._grown(move)
        yield from self._attempts("screening", Range(0, screened), grown)
        yield from self._attempts("race on val", Range(0, compared, _SELDOM * compared), grown)

    def _pruning(self, tasks: int, edits: Range) -> Iterator[CostLine]:
        """Every rule alone, then one after the other; the whole skill on what speaks for each."""
        rules = len(rules_in(self.spec.skill)) + edits.high
        most = rules * tasks + rules * tasks + (tasks + rules * (tasks // 2))
        return self._attempts("leave one out", Range(0, most), edits)

    def _candidate(self, edits: Range, texts: int) -> Iterator[CostLine]:
        """What meets the gate, after so many texts that may be too long."""
        if self.parts.shortener is not None:
            calls = Range(0, texts, _SELDOM * texts)
            yield self._question(PartCost("compress", calls, "compress_skill", whole=True), edits)
        once = CANDIDATES * self.val * self.evidence.replicates
        gate = Range(0, self.val * self.evidence.most_attempts, once)
        yield from self._attempts("gate on val", gate, edits)

    def _ahead(self, following: Step | None, edits: Range) -> Iterator[CostLine]:
        """Attempts under a skill that the next step does not start from."""
        if following is not None and speculates(self.spec.config):
            tasks = sum(map(len, following.batches))
            yield from self._idly("speculative rollout", Range(0, tasks, 0.1 * tasks), edits)

    def _epoch(self, move: EpochEnd, edits: Range) -> Iterator[CostLine]:
        if not move.tasks:
            return
        compared = 2 * (len(move.tasks) + len(move.spare))
        yield from self._attempts("epoch comparison", Range(0, compared), edits)
        reviewer = self.parts.reviewer
        yield from self._told(reviewer.cost(self._size([move.tasks]), last=move.last), edits)
        if reviewer.guides:
            yield from self._candidate(edits + Range(0, 4, 1), 1)

    def _skill(self, edits: Range) -> Range:
        now = tokens_in(self.spec.skill.render())
        return Range(0.5 * now, now + edits.high * _EDIT, now + edits.expected * _EDIT / 2)

    def _attempts(self, phase: str, count: Range, edits: Range) -> Iterator[CostLine]:
        skill, task, own = self._skill(edits), self.shared + self.own, self.own
        asked = skill + Range(0.8 * task, 1.2 * task, task)
        # The skill and the instructions come first, the same in every attempt under one skill.
        new = Range(0.8 * own, 1.2 * own + skill.high, own)
        yield self._line(phase, "target", count, asked, self.answers["target"], new)
        if "judge" in self.spec.roles:
            # Asked about each attempt, once more where its reply is unusable; it sees task, answer,
            # instructions and perhaps a right answer.
            seen, answer = own + _JUDGED, self.answers["target"]
            shown = Range(seen + answer.low, 2 * seen + answer.high, seen + answer.expected)
            judged = Range(count.low, 2 * count.high, count.expected)
            yield self._line(phase, "judge", judged, shown, self.answers["judge"])

    def _line(
        self,
        phase: str,
        role: Role,
        count: Range,
        asked: Range,
        answer: Range,
        new: Range | None = None,
    ) -> CostLine:
        """So many calls with so many tokens each; `new`: those not sent just before, if fewer."""
        config = self.spec.config
        workers = config.gradient.analyst_workers if role == "optimizer" else config.env.workers
        seconds = self.speeds[role].seconds(count, new or asked, answer, workers)
        return CostLine(phase, role, count, count * asked, count * answer, seconds)

    def _question(self, cost: PartCost, edits: Range) -> CostLine:
        fixed = tokens_in(self.spec.prompts.text(cost.prompt)) if cost.prompt else 0
        skill = self._skill(edits)
        # Two skills are shown where they are compared.
        asked = cost.asked or Range(
            0.8 * fixed + skill.low,
            1.2 * fixed + 2 * skill.high + _MEMORY + cost.shown,
            fixed + skill.expected + _SHOWN * (_MEMORY + cost.shown),
        )
        answer = cost.answer or self.answers["optimizer"]
        if cost.whole:
            most = max(answer.high, 500 + skill.high)
            answer = Range(min(answer.low, skill.low), most, answer.expected + skill.expected)
        return self._line(cost.phase, "optimizer", cost.calls, asked, answer)


class _Chances:
    """How likely further steps are, where some in a row that change nothing end a run."""

    def __init__(self, patience: int, fruitless: int) -> None:
        self._patience = patience
        self._surely = patience - fruitless
        self._after = [0.0] * max(1, patience)
        """That the run goes on and its last steps changed nothing, by the number of these."""
        self._after[min(fruitless, len(self._after) - 1)] = 1.0

    @property
    def sure(self) -> bool:
        """Whether the next step comes in any case."""
        return self._patience == 0 or self._surely > 0

    @property
    def coming(self) -> float:
        return sum(self._after)

    def step(self) -> None:
        self._surely -= 1
        if self._patience:
            fruitful = CANDIDATES * self.coming
            self._after = [fruitful, *((1 - CANDIDATES) * chance for chance in self._after[:-1])]


def answer_tokens(role: RoleModel) -> Range:
    """How long the answers of a role are assumed to be."""
    found, longest = _ANSWERS[role.role], role.max_tokens
    usual = min(found.expected, _FILLED * longest)
    return Range(min(found.low, longest), min(found.high, longest), usual)


async def _request_tokens(spec: RunSpec) -> tuple[float, float]:
    """Tokens of what a few tasks show the agent, shared and own, on average."""
    environment = spec.environment
    tasks: list[Task] = [*environment.tasks("train"), *environment.tasks("val")]
    chosen = tasks[:: max(1, len(tasks) // _PROBES)]

    async def measure(task: Task) -> tuple[int, int]:
        with attributed_to(EnvironmentFault, f"task {task.id!r}"):
            async with environment.open(task) as episode:
                return tokens_in(episode.instructions), tokens_in(episode.brief) + _FRAME

    tokens = await map_all(measure, chosen)
    if not tokens:
        return 0, 0
    return fmean(shared for shared, _ in tokens), fmean(own for _, own in tokens)
