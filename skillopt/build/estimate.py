"""What a run will take, before it takes anything: from its plan, its data and its prompts.

Low: nothing is needed that the data does not force, as when no candidate ever comes up. High: every
question that may come up is asked once, every gate is needed, and the skill grows all the time.
Tokens are letters / 4. How long answers are is known to nobody beforehand: see `_ANSWERS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import fmean

from skillopt.aio import map_all
from skillopt.build.data import validation_tasks
from skillopt.build.models import price_of
from skillopt.build.policies import form_of, rate_control, sampling
from skillopt.build.training import Brief
from skillopt.config.schema import Role
from skillopt.core.chat import Model, Usage
from skillopt.core.task import Task
from skillopt.core.tokens import estimate as tokens_in
from skillopt.engine.plan import EpochEnd, Exam, MetaReflection, Step
from skillopt.errors import EnvironmentFault, attributed_to
from skillopt.model.prices import Price

_PROBES = 20
"""Tasks of which the request is looked at."""
_ANSWERS: Mapping[Role, tuple[int, int]] = {
    "target": (10, 500),
    "optimizer": (150, 2000),
    "judge": (10, 500),
}
"""Tokens of an answer, at least and at most, as far as max_tokens allows."""
_FRAME = 20
"""Tokens around a request or an attempt."""
_EDIT = 40
"""Tokens that an edit adds to a skill at most, as a rule."""
_MEMORY = 4000
"""Tokens of lessons and history at most."""
_MANY = 12
"""Proposals of a reflection, or changes of a step, that nothing bounds: so many as a rule."""
_EXCHANGES = 6
"""Combinations that a trial tries at most."""
_RULES = 3
"""Rules that a pattern yields at most."""


@dataclass(frozen=True, slots=True)
class Range:
    """From, to."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        """Both together."""
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Range) -> Range:
        """So many of those."""
        return Range(self.low * other.low, self.high * other.high)


_NONE = Range(0, 0)
_MAYBE = Range(0, 1)


@dataclass(frozen=True, slots=True)
class Line:
    """One phase of a run, as far as it asks one role."""

    phase: str
    role: Role
    calls: Range
    input: Range
    """Tokens, of all calls together."""
    output: Range

    def __add__(self, other: Line) -> Line:
        """The same phase, more of it."""
        return Line(
            self.phase,
            self.role,
            self.calls + other.calls,
            self.input + other.input,
            self.output + other.output,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls, tokens and, where prices are known, dollars of a whole run."""

    lines: tuple[Line, ...]
    prices: Mapping[Role, Price] = field(default_factory=dict[Role, Price])

    @property
    def roles(self) -> list[Line]:
        """The total of each role."""
        return _summed([Line("", *_rest(line)) for line in self.lines])

    @property
    def calls(self) -> Range:
        """All calls together."""
        return sum((line.calls for line in self.lines), _NONE)

    @property
    def dollars(self) -> Range | None:
        """What all of it costs; None while a price is unknown."""
        found = [self.cost(line) for line in self.lines]
        known = [each for each in found if each is not None]
        return sum(known, _NONE) if len(known) == len(found) else None

    @property
    def unpriced(self) -> list[Role]:
        """Roles whose price nobody has said."""
        return list(dict.fromkeys(line.role for line in self.lines if line.role not in self.prices))

    def cost(self, line: Line) -> Range | None:
        """What a phase costs; None when its price is unknown."""
        price = self.prices.get(line.role)
        if price is None:
            return None

        def at(given: float, answered: float) -> float:
            return price.cost(Usage(input=round(given), output=round(answered)))

        return Range(at(line.input.low, line.output.low), at(line.input.high, line.output.high))


async def estimate(brief: Brief) -> Estimate:
    """Look at the data and the prompts; no model is asked."""
    roles: tuple[Role, Role] = ("target", "optimizer")
    models = {role: brief.config.model.role(role) for role in roles}
    prices: dict[Role, Price] = {
        role: price for role in roles if (price := price_of(models[role])) is not None
    }
    outlook = _Outlook(
        brief,
        {role: _answer(role, models[role].max_tokens) for role in roles},
        await _request_tokens(brief),
    )
    return Estimate(tuple(_summed(outlook.lines())), prices)


@dataclass(frozen=True, slots=True)
class _Outlook:
    """A run that has not begun, phase by phase."""

    brief: Brief
    answers: Mapping[Role, Range]
    request: float
    """Tokens of what a task shows the agent, without the skill, on average."""

    def lines(self) -> Iterator[Line]:
        """Every phase of every move."""
        plan = self.brief.plan
        val = len(validation_tasks(self.brief.config, self.brief.world.environment))
        yield from self._preflight()
        evidence = sampling(self.brief.config)
        first = val * max(evidence.replicates, evidence.initial)
        gate = Range(0, val * evidence.dearest)
        yield self._attempts("initial skill on val", Range(first, first), edits=0)
        edits = 0
        for move in plan.moves:
            match move:
                case Step():
                    yield from self._step(move, edits)
                    edits += self._used(move)
                    yield from self._candidate(gate, edits)
                case MetaReflection():
                    yield self._question("meta reflect", "meta_reflect", _MAYBE, edits, 2000)
                    edits += _bound(move.budget)
                    yield from self._candidate(gate, edits)
                case EpochEnd():
                    yield from self._epoch(move, edits, gate)
                case Exam(tasks):
                    once = len(tasks) * evidence.replicates
                    yield self._attempts("exam on test", Range(once, 3 * once), edits)

    def _preflight(self) -> Iterator[Line]:
        supplied = self.brief.supplied
        roles: dict[Role, Model | None] = {
            "target": supplied.target,
            "optimizer": supplied.optimizer,
        }
        for role, own in roles.items():
            if own is None:
                yield Line("preflight", role, Range(1, 1), Range(4, 40), Range(1, 16))

    def _step(self, move: Step, edits: int) -> Iterator[Line]:
        config, form = self.brief.config, form_of(self.brief.config)
        tasks = sum(map(len, move.batches))
        # In a later epoch all attempts are known already if the skill has not changed meanwhile.
        yield self._attempts("rollout", Range(tasks if move.epoch == 1 else 0, tasks), edits)
        found = _proposing(self.brief, move)
        yield from self._reflection(found, edits)
        if config.gradient.merge_mode == "model":
            merges = Range(0, _merges(found.leaves, config.gradient.merge_batch_size))
            prompt, shown = f"merge_failure{form.suffix}", 16 * 2 * _EDIT
            yield self._question("merge", prompt, merges, edits, shown, whole=form.whole)
        if move.budget == 0:
            return
        if rate_control(config.optimizer) == "autonomous":
            yield self._question("learning rate", "lr_autonomous", _MAYBE, edits, 2000)
        if config.optimizer.select_mode == "trial":
            each = config.optimizer.trial_tasks
            tried = found.proposals * (each + 1) + _EXCHANGES * self._used(move) * each
            yield self._attempts("trial", Range(0, tried), edits + self._used(move))
        elif move.budget is not None:
            yield self._question("ranking", f"ranking{form.suffix}", _MAYBE, edits, 2000)
        if config.optimizer.skill_update_mode == "rewrite_from_suggestions":
            yield self._question("rewrite", "rewrite_skill", _MAYBE, edits, 2000, whole=True)

    def _used(self, move: Step) -> int:
        """Changes of a step, at most."""
        asked = rate_control(self.brief.config.optimizer) == "autonomous"
        return max(_MANY, _bound(move.budget)) if asked else _bound(move.budget)

    def _candidate(self, gate: Range, edits: int) -> Iterator[Line]:
        if self.brief.config.optimizer.max_skill_tokens:
            yield self._question("compress", "compress_skill", _MAYBE, edits, 0, whole=True)
        yield self._attempts("gate on val", gate, edits)

    def _reflection(self, found: _Proposing, edits: int) -> Iterator[Line]:
        gradient = self.brief.config.gradient
        shown = gradient.minibatch_size * self._attempt
        if gradient.evidence_tokens:
            shown = min(shown, gradient.evidence_tokens)
        if found.analyst.high:
            form = form_of(self.brief.config)
            prompt = f"analyst_error{form.suffix}"
            yield self._question("analysts", prompt, found.analyst, edits, shown, whole=form.whole)
        if found.explore.high:
            most = gradient.evidence_tokens or gradient.explore_turns * 8 * self._attempt
            yield self._question("explore", "explore", found.explore, edits, most)
        if found.instruct.high:
            short = 3 * 300 + tokens_in(self.brief.prompts.text("instruct"))
            inputs = found.instruct * Range(50, short)
            outputs = found.instruct * Range(5, 160)
            yield Line("instructions", "optimizer", found.instruct, inputs, outputs)

    def _epoch(self, move: EpochEnd, edits: int, gate: Range) -> Iterator[Line]:
        if not move.tasks:
            return
        optimizer = self.brief.config.optimizer
        looked = 2 * (len(move.tasks) + len(move.spare))
        yield self._attempts("look back", Range(0, looked), edits)
        shown = 2 * len(move.tasks) * self._attempt
        if optimizer.use_slow_update:
            yield self._question("slow update", "slow_update", _MAYBE, edits, shown)
            yield from self._candidate(gate, edits + 4)
        if optimizer.use_meta_skill and not move.last:
            yield self._question("meta skill", "meta_skill", _MAYBE, edits, shown)

    @property
    def _attempt(self) -> float:
        """Tokens of an attempt in a question, at most."""
        whole = self.request + self.answers["target"].high + 3 * _FRAME
        most = self.brief.config.gradient.trajectory_tokens
        return min(whole, most) if most else whole

    def _skill(self, edits: int) -> Range:
        now = tokens_in(self.brief.skill.render())
        return Range(0.5 * now, now + edits * _EDIT)

    def _attempts(self, phase: str, count: Range, edits: int) -> Line:
        skill = self._skill(edits)
        asked = Range(0.8 * self.request + skill.low, 1.2 * self.request + skill.high)
        return Line(phase, "target", count, count * asked, count * self.answers["target"])

    def _question(
        self,
        phase: str,
        prompt: str,
        count: Range,
        edits: int,
        shown: float,
        *,
        whole: bool = False,
    ) -> Line:
        """`whole`: the answer holds a body, and not just what is to change in it."""
        fixed = tokens_in(self.brief.prompts.text(prompt))
        skill = self._skill(edits)
        # Two skills are shown where they are compared.
        asked = Range(0.8 * fixed + skill.low, 1.2 * fixed + 2 * skill.high + _MEMORY + shown)
        answer = self.answers["optimizer"]
        if whole:
            answer = Range(min(answer.low, skill.low), max(answer.high, 500 + skill.high))
        return Line(phase, "optimizer", count, count * asked, count * answer)


@dataclass(frozen=True, slots=True)
class _Proposing:
    """How many questions the proposers of a step ask, and what comes of them at most."""

    analyst: Range = _NONE
    explore: Range = _NONE
    instruct: Range = _NONE
    leaves: int = 0
    """Findings with proposals, at most."""
    proposals: int = 0


def _proposing(brief: Brief, move: Step) -> _Proposing:
    gradient = brief.config.gradient
    found = [_one(name, brief, move) for name in gradient.proposer]
    if len(found) > 1 and gradient.portfolio_after:
        # One of them has its turn; which one shows only then.
        found = [_perhaps(each) for each in found]
    return _Proposing(
        sum((each.analyst for each in found), _NONE),
        sum((each.explore for each in found), _NONE),
        sum((each.instruct for each in found), _NONE),
        sum(each.leaves for each in found),
        sum(each.proposals for each in found),
    )


def _bound(budget: int | None) -> int:
    return _MANY if budget is None else budget


def _perhaps(found: _Proposing) -> _Proposing:
    return _Proposing(
        Range(0, found.analyst.high),
        Range(0, found.explore.high),
        Range(0, found.instruct.high),
        found.leaves,
        found.proposals,
    )


def _one(name: str, brief: Brief, move: Step) -> _Proposing:
    gradient = brief.config.gradient
    kinds = sum(len({task.kind for task in batch}) for batch in move.batches)
    match name:
        case "explore":
            turns = Range(0 if gradient.failure_only else 1, gradient.explore_turns)
            asked = _NONE if move.budget == 0 else turns
            return _Proposing(explore=asked, leaves=2, proposals=_bound(move.budget))
        case "instruct":
            most = kinds * gradient.samples
            return _Proposing(instruct=Range(0, most), leaves=kinds, proposals=most)
        case "patterns":
            leaves = kinds + len(move.batches)
            return _Proposing(leaves=leaves, proposals=_RULES * leaves)
        case _:
            asked = sum((_minibatches(len(each), brief) for each in move.batches), _NONE)
            most = round(asked.high)
            return _Proposing(analyst=asked, leaves=most, proposals=most * _bound(move.budget))


def _minibatches(tasks: int, brief: Brief) -> Range:
    """Questions about so many attempts, however many of them failed."""
    gradient = brief.config.gradient
    size, both = gradient.minibatch_size, not gradient.failure_only
    ways = [ceil(bad / size) + both * ceil((tasks - bad) / size) for bad in range(tasks + 1)]
    # Attempts without a score are read by nobody.
    lost = int(brief.config.evaluation.max_failure_share * tasks)
    least = ceil((tasks - lost) / size) if both else 0
    return Range(least, max(ways))


def _merges(leaves: int, size: int) -> int:
    """Questions that merge so many findings into one, however they fall to the two trees."""
    ways = [
        _tree(failures, size) + _tree(leaves - failures, size) + (0 < failures < leaves)
        for failures in range(leaves + 1)
    ]
    return max(ways)


def _tree(leaves: int, size: int) -> int:
    asked = 0
    while leaves > 1:
        full, rest = divmod(leaves, size)
        asked += full + (rest > 1)
        leaves = full + (rest > 0)
    return asked


def _answer(role: Role, longest: int) -> Range:
    low, high = _ANSWERS[role]
    return Range(min(low, longest), min(high, longest))


async def _request_tokens(brief: Brief) -> float:
    """How long requests are, from a few of them."""
    environment = brief.world.environment
    tasks: list[Task] = [*environment.tasks("train"), *environment.tasks("val")]
    chosen = tasks[:: max(1, len(tasks) // _PROBES)]

    async def measure(task: Task) -> int:
        with attributed_to(EnvironmentFault, f"task {task.id!r}"):
            async with environment.open(task) as episode:
                return tokens_in(episode.instructions) + tokens_in(episode.brief) + _FRAME

    return fmean(await map_all(measure, chosen)) if chosen else 0.0


def _summed(lines: Sequence[Line] | Iterator[Line]) -> list[Line]:
    sums: dict[tuple[str, Role], Line] = {}
    for line in lines:
        key = line.phase, line.role
        sums[key] = sums[key] + line if key in sums else line
    return [line for line in sums.values() if line.calls.high]


def _rest(line: Line) -> tuple[Role, Range, Range, Range]:
    return line.role, line.calls, line.input, line.output
