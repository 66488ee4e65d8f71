"""Estimates what a run will cost, from its plan, its data and its prompts.

The lower bound has only the calls that every run makes. The upper bound has every optional call
once, a full evaluation of every candidate, and a skill that grows with every step. The expected
value assumes that most steps have a candidate that is measured once, and a part of the optional
calls.
Tokens are characters / 4. The length and the speed of answers are assumptions: see
`answer_tokens` and `app/speed.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from skillopt.aio import map_all
from skillopt.app.costs import MAYBE, CostLine, Estimate, Range, summed_lines
from skillopt.app.environment import validation_tasks
from skillopt.app.judging import halving_schedule, replication
from skillopt.app.policies import form_of, rate_control
from skillopt.app.proposing import MANY, ProposerCalls, bound, merges, proposer_calls
from skillopt.app.run_spec import RunSpec
from skillopt.app.speculating import speculates
from skillopt.app.speed import Speed, speed_of
from skillopt.config.schema import Role, RoleModel
from skillopt.core.rules import rules_in
from skillopt.core.task import Task
from skillopt.core.tokens import estimate as tokens_in
from skillopt.engine.plan import EpochEnd, FinalTest, MetaReflection, Move, Pruning, Step
from skillopt.errors import EnvironmentFault, attributed_to
from skillopt.optimizer.instruct import MOST_SHOWN
from skillopt.optimizer.trial import EXCHANGES

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
_TRIED = 0.05
"""Share of the most attempts that trials of proposals take: as a rule there are few proposals."""
_SHOWN = 0.15
"""Share of the most that a question shows of attempts and memory, as a rule."""
_SELDOM = 0.25
"""Share of what comes up only now and then."""
_FRAME = 20
"""Tokens around a request or an attempt."""
_JUDGED = 300
"""Tokens of a judge's instructions."""
_INSTRUCTION = 25
"""Tokens of an instruction, as a rule."""
_EDIT = 40
"""Tokens that an edit adds to a skill at most, as a rule."""
_MEMORY = 4000
"""Tokens of lessons and history at most."""


async def estimate(brief: RunSpec) -> Estimate:
    """Look at the data and the prompts; no model is asked."""
    outlook = await cost_model(brief)
    lines = [*outlook.start(), *outlook.moves(brief.plan.moves)]
    return Estimate(tuple(summed_lines(lines)), brief.prices, brief.warnings)


async def cost_model(brief: RunSpec) -> CostModel:
    """Look at the data; the skill is the one that the run starts or goes on with."""
    models: dict[Role, RoleModel] = {role: brief.config.model.role(role) for role in brief.roles}
    answers: dict[Role, Range] = {role: answer_tokens(model) for role, model in models.items()}
    speeds: dict[Role, Speed] = {role: speed_of(model) for role, model in models.items()}
    return CostModel(brief, answers, speeds, await _request_tokens(brief))


@dataclass(frozen=True, slots=True)
class Requests:
    """What a task shows the agent, without the skill, on average."""

    whole: float
    """Tokens."""
    own: float
    """Those that differ from task to task."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """A run phase by phase, as it lies ahead."""

    brief: RunSpec
    answers: Mapping[Role, Range]
    speeds: Mapping[Role, Speed]
    requests: Requests

    @property
    def request(self) -> float:
        """Tokens of what a task shows the agent, without the skill, on average."""
        return self.requests.whole

    def start(self) -> Iterator[CostLine]:
        """What comes before the first move."""
        yield from self._preflight()
        evidence = replication(self.brief.config)
        first = self._val * max(evidence.replicates, evidence.initial)
        yield from self._attempts("initial skill on val", Range(first, first), edits=0)

    @property
    def _val(self) -> int:
        return len(validation_tasks(self.brief.config, self.brief.environment))

    def moves(self, moves: Sequence[Move], fruitless: int = 0) -> Iterator[CostLine]:
        """Every phase of these moves, after so many steps in a row that changed nothing."""
        evidence = replication(self.brief.config)
        once = CANDIDATES * self._val * evidence.replicates
        gate = Range(0, self._val * evidence.most_attempts, once)
        patience, edits = self.brief.plan.patience, 0
        for move in moves:
            match move:
                case Step():
                    fruitless += 1
                    lines = self._step(move, edits)
                    sure = patience == 0 or fruitless <= patience
                    yield from lines if sure else (each.perhaps() for each in lines)
                    edits += self._used(move)
                    texts = self.brief.config.optimizer.candidates
                    yield from self._candidate(gate, edits, texts)
                    yield from self._ahead(self.brief.plan.after(move), edits)
                case MetaReflection():
                    yield self._question("meta reflect", "meta_reflect", MAYBE, edits, 2000)
                    edits += bound(move.budget)
                    yield from self._candidate(gate, edits, 1)
                case Pruning(tasks=tasks):
                    yield from self._pruning(len(tasks), edits)
                    yield from self._candidate(gate, edits, 0)
                case EpochEnd():
                    yield from self._epoch(move, edits, gate)
                case FinalTest(tasks):
                    once = len(tasks) * evidence.replicates
                    yield from self._attempts("final test", Range(once, 3 * once, 2 * once), edits)

    def _preflight(self) -> Iterator[CostLine]:
        for role in self.brief.roles:
            if role not in self.brief.supplied.models:
                yield CostLine("preflight", role, Range(1, 1), Range(4, 40), Range(1, 16))

    def _step(self, move: Step, edits: int) -> Iterator[CostLine]:
        optimizer = self.brief.config.optimizer
        tasks = sum(map(len, move.batches))
        # In a later epoch all attempts are known already if the skill has not changed meanwhile.
        least = tasks if move.epoch == 1 else 0
        yield from self._attempts("rollout", Range(least, tasks, _AGAIN * tasks), edits)
        yield from self._choice(move, edits, tasks)
        for _ in range(min(optimizer.candidate_shuffles, optimizer.candidates - 1)):
            yield from (each.perhaps() for each in self._choice(move, edits, tasks))
        if move.budget == 0:
            return
        written = Range(0, optimizer.candidates)
        if optimizer.skill_update_mode == "rewrite_from_suggestions":
            yield self._question("rewrite", "rewrite_skill", written, edits, 2000, whole=True)
        if optimizer.skill_aware_consolidate_threshold:
            yield self._question("reminders", "appendix_consolidate", MAYBE, edits, 2000)
        yield from self._race(tasks, edits + self._used(move))

    def _choice(self, move: Step, edits: int, tasks: int) -> Iterator[CostLine]:
        """From attempts to chosen proposals."""
        config, form = self.brief.config, form_of(self.brief.config)
        found = proposer_calls(self.brief, move)
        yield from self._probes(tasks, edits)
        yield from self._reflection(found, edits)
        if config.gradient.merge_mode == "model":
            asked = Range(0, merges(found.leaves, config.gradient.merge_batch_size))
            prompt, shown = f"merge_failure{form.suffix}", 16 * 2 * _EDIT
            yield self._question("merge", prompt, asked, edits, shown, whole=form.whole)
        if move.budget == 0:
            return
        if rate_control(config.optimizer) == "autonomous":
            yield self._question("learning rate", "lr_autonomous", MAYBE, edits, 2000)
        if config.optimizer.select_mode == "trial":
            each = config.optimizer.trial_tasks
            # Once alone; and once more beside lines that are proposed for deletion.
            alone = each * (1 if config.gradient.proposer == ("instruct",) else 2)
            tried = found.proposals * alone + (EXCHANGES + 1) * self._used(move) * each
            some = Range(0, tried, _TRIED * tried)
            yield from self._attempts("trial", some, edits + self._used(move))
        elif move.budget is not None:
            yield self._question("ranking", f"ranking{form.suffix}", MAYBE, edits, 2000)

    def _race(self, tasks: int, edits: int) -> Iterator[CostLine]:
        """Several candidates: screened on the tasks of the step, raced on validation tasks."""
        way = halving_schedule(self.brief.config)
        if way is None:
            return
        candidates = self.brief.config.optimizer.candidates
        screened, compared = way.most_attempts(candidates, tasks, self._val)
        yield from self._attempts("screening", Range(0, screened), edits)
        yield from self._attempts("race on val", Range(0, compared, _SELDOM * compared), edits)

    def _probes(self, tasks: int, edits: int) -> Iterator[CostLine]:
        gradient = self.brief.config.gradient
        if not gradient.use_deep_reflect:
            return
        probes = min(tasks, gradient.deep_reflect_failures + gradient.deep_reflect_successes)
        turns = gradient.deep_reflect_turns
        # Each turn may be told back once, and the conclusion comes on top.
        most = probes * (2 * turns + 1)
        asked = Range(0, most, most / 3)
        yield self._question("probes", "probe", asked, edits, 2 * self._attempt)
        yield from self._attempts("probed", Range(0, probes * turns), edits)

    def _pruning(self, tasks: int, edits: int) -> Iterator[CostLine]:
        """Every rule alone, then one after the other; the whole skill on what speaks for each."""
        rules = len(rules_in(self.brief.skill)) + edits
        most = rules * tasks + rules * tasks + (tasks + rules * (tasks // 2))
        return self._attempts("leave one out", Range(0, most), edits)

    def _used(self, move: Step) -> int:
        """Changes of a step, at most."""
        asked = rate_control(self.brief.config.optimizer) == "autonomous"
        return max(MANY, bound(move.budget)) if asked else bound(move.budget)

    def _candidate(self, gate: Range, edits: int, texts: int) -> Iterator[CostLine]:
        """What meets the gate, after so many texts that may be too long."""
        if self.brief.config.optimizer.max_skill_tokens:
            most = Range(0, texts, _SELDOM * texts)
            yield self._question("compress", "compress_skill", most, edits, 0, whole=True)
        yield from self._attempts("gate on val", gate, edits)

    def _ahead(self, following: Move | None, edits: int) -> Iterator[CostLine]:
        """Attempts under a skill that is then replaced."""
        if isinstance(following, Step) and speculates(self.brief.config):
            tasks = sum(map(len, following.batches))
            yield from self._attempts("speculative rollout", Range(0, tasks, 0.1 * tasks), edits)

    def _reflection(self, found: ProposerCalls, edits: int) -> Iterator[CostLine]:
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
            fixed = tokens_in(self.brief.prompts.text("instruct"))
            usual = _SHOWN * MOST_SHOWN + fixed
            yield self._line(
                *("instructions", "optimizer", found.instruct),
                asked=Range(50, MOST_SHOWN + fixed, usual),
                answer=Range(5, 160, _INSTRUCTION),
            )

    def _epoch(self, move: EpochEnd, edits: int, gate: Range) -> Iterator[CostLine]:
        if not move.tasks:
            return
        optimizer = self.brief.config.optimizer
        looked = 2 * (len(move.tasks) + len(move.spare))
        yield from self._attempts("epoch comparison", Range(0, looked), edits)
        shown = 2 * len(move.tasks) * self._attempt
        if optimizer.use_slow_update:
            yield self._question("slow update", "slow_update", MAYBE, edits, shown)
            yield from self._candidate(gate, edits + 4, 1)
        if optimizer.use_meta_skill and not move.last:
            yield self._question("meta skill", "meta_skill", MAYBE, edits, shown)

    @property
    def _attempt(self) -> float:
        """Tokens of an attempt in a question, at most."""
        whole = self.request + self.answers["target"].high + 3 * _FRAME
        most = self.brief.config.gradient.trajectory_tokens
        return min(whole, most) if most else whole

    def _skill(self, edits: int) -> Range:
        now = tokens_in(self.brief.skill.render())
        return Range(0.5 * now, now + edits * _EDIT, now + edits * _EDIT / 4)

    def _attempts(self, phase: str, count: Range, edits: int) -> Iterator[CostLine]:
        skill = self._skill(edits)
        asked = Range(
            0.8 * self.request + skill.low,
            1.2 * self.request + skill.high,
            self.request + skill.expected,
        )
        # The skill and the instructions come first, the same in every attempt under one skill.
        own = self.requests.own
        new = Range(0.8 * own, 1.2 * own + skill.high, own)
        yield self._line(phase, "target", count, asked, self.answers["target"], new)
        if "judge" in self.brief.roles:
            # Asked about each attempt, once more where its reply is unusable; it sees task, answer,
            # instructions and perhaps a right answer.
            seen, answer = self.requests.own + _JUDGED, self.answers["target"]
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
        config = self.brief.config
        workers = config.gradient.analyst_workers if role == "optimizer" else config.env.workers
        seconds = self.speeds[role].seconds(count, new or asked, answer, workers)
        return CostLine(phase, role, count, count * asked, count * answer, seconds)

    def _question(
        self,
        phase: str,
        prompt: str,
        count: Range,
        edits: int,
        shown: float,
        *,
        whole: bool = False,
    ) -> CostLine:
        """`whole`: the answer holds a body, and not just what is to change in it."""
        fixed = tokens_in(self.brief.prompts.text(prompt))
        skill = self._skill(edits)
        # Two skills are shown where they are compared.
        asked = Range(
            0.8 * fixed + skill.low,
            1.2 * fixed + 2 * skill.high + _MEMORY + shown,
            fixed + skill.expected + _SHOWN * (_MEMORY + shown),
        )
        answer = self.answers["optimizer"]
        if whole:
            most = max(answer.high, 500 + skill.high)
            answer = Range(min(answer.low, skill.low), most, answer.expected + skill.expected)
        return self._line(phase, "optimizer", count, asked, answer)


def answer_tokens(role: RoleModel) -> Range:
    """How long the answers of a role are assumed to be."""
    found, longest = _ANSWERS[role.role], role.max_tokens
    usual = min(found.expected, _FILLED * longest)
    return Range(min(found.low, longest), min(found.high, longest), usual)


async def _request_tokens(brief: RunSpec) -> Requests:
    """How long requests are, from a few of them."""
    environment = brief.environment
    tasks: list[Task] = [*environment.tasks("train"), *environment.tasks("val")]
    chosen = tasks[:: max(1, len(tasks) // _PROBES)]

    async def measure(task: Task) -> tuple[int, int]:
        with attributed_to(EnvironmentFault, f"task {task.id!r}"):
            async with environment.open(task) as episode:
                return tokens_in(episode.instructions), tokens_in(episode.brief) + _FRAME

    found = await map_all(measure, chosen)
    if not found:
        return Requests(0, 0)
    own = fmean(own for _, own in found)
    return Requests(own + fmean(shared for shared, _ in found), own)
