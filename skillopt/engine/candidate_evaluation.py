"""A candidate at the gate: evidence is gathered until there is a verdict, and a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skillopt.aio import map_all
from skillopt.core.events import Decision, GateVerdict, Measured
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Task
from skillopt.core.wording import counted
from skillopt.engine.rollouts import RolloutRunner

_LOOKS = 64
"""About how often a gate that tests looks at a candidate; a look takes up to some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """How much evidence is gathered."""

    replicates: int = 1
    """Attempts at every task whenever a skill is evaluated."""
    initial: int = 1
    """Attempts at every task for the initial skill; two or more tell how noisy scores are."""
    most: int = 1
    """Up to how many are bought when the gate cannot tell."""
    changed_only: bool = False
    """Whether they are bought only for tasks on which the two sides have differed."""
    block: int = 0
    """After how many tasks at a time the gate looks at a candidate; 0: after all of them.

    A look that could not end anything is left out, so that nobody waits for it.
    """

    @property
    def most_attempts(self) -> int:
        """The most attempts per task that a decision may take, of both sides."""
        return self.most + max(0, self.most - self.replicates)


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """How the evaluation of a candidate ended: both skills as they are known now."""

    candidate: Measured
    incumbent: Measured
    verdict: GateVerdict
    saved: int = 0
    """Attempts that were not made because the verdict was certain without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateEvaluation:
    """Gathers evidence on a candidate until the gate has a verdict."""

    runner: RolloutRunner
    tasks: Sequence[Task]
    gate: CompleteGate
    level: float
    replication: Replication

    async def run(
        self, skill: Skill, origin: str, step: int, incumbent: Measured
    ) -> CandidateResult:
        """Measure until the gate is certain, or all is measured; buy replicates if it asks."""
        tasks = {task.id: task for task in self.tasks}
        order = self.gate.order(list(tasks), skill.digest, incumbent.evaluation)
        every = max(1, len(order) // _LOOKS)
        looked, foreseen = -every, None

        def measured(evaluation: Evaluation, left: Sequence[str] = ()) -> Measured:
            value = self.gate.value(skill, evaluation.granting(left) if left else evaluation)
            return Measured(skill, evaluation, value, origin, step)

        def look(evaluation: Evaluation) -> GateVerdict | None:
            """What is certain after the tasks so far."""
            nonlocal looked, foreseen
            met = len(order) - len(_left(order, evaluation))
            # A gate that tests may find "inconclusive" first and "not better" later. It looks
            # after every task (of many tasks, after every few), so that what it finds first is the
            # same for blocks of any size. Other gates find the same whenever they look.
            ends = range(looked + every, met + 1, every) if self.gate.alpha else (met,)
            for end in ends:
                if foreseen is None:
                    looked = end
                    part = measured(evaluation.ordered(order[:end]))
                    foreseen = self._foresee(part, incumbent, order[end:])
            return foreseen

        def due(evaluation: Evaluation) -> int:
            if self.replication.block and look(evaluation) is not None:
                return 0
            return self._due(measured(evaluation), incumbent, _left(order, evaluation))

        evaluation = await self.runner.measure(
            skill,
            "val",
            [tasks[task] for task in order],
            "evaluate",
            replicates=range(self.replication.replicates),
            against=incumbent,
            due=due,
        )
        evaluation = evaluation.ordered(list(tasks))
        if foreseen is not None:
            left = _left(order, evaluation)
            saved = len(left) * self.replication.replicates
            return CandidateResult(measured(evaluation, left), incumbent, foreseen, saved)
        result = await self._repeat_until_decided(measured(evaluation), incumbent)
        if result.verdict.finding == "not_better" and (first := look(evaluation)) is not None:
            # Smaller blocks would have ended there.
            return replace(result, verdict=replace(result.verdict, finding=first.finding))
        return result

    def spare(
        self, skill: Skill, origin: str, step: int, incumbent: Measured, verdict: GateVerdict
    ) -> CandidateResult:
        """A verdict without an attempt."""
        nothing = Evaluation(skill.digest, "val", {})
        value = self.gate.value(skill, nothing.granting(task.id for task in self.tasks))
        candidate = Measured(skill, nothing, value, origin, step)
        saved = len(self.tasks) * self.replication.replicates
        return CandidateResult(candidate, incumbent, verdict, saved)

    async def conclude(
        self, result: CandidateResult, current: Measured, best: Measured
    ) -> Decision:
        """What the verdict means for the current and the best skill."""
        candidate, verdict = result.candidate, result.verdict
        new_best = better = verdict.finding == "better"
        if (better or self.gate.forced) and best.skill.digest != current.skill.digest:
            candidate = await self._beside(candidate, best)
            judged = self.gate.judge(candidate, best, level=self.level)
            new_best = judged.finding == "better"
        if self.gate.forced:
            action = "force_accept"
        else:
            action = ("accept_new_best" if new_best else "accept") if better else "reject"
        return Decision(
            candidate,
            action,
            verdict.reason + _own_failures(candidate),
            new_best=new_best,
            inconclusive=verdict.finding == "inconclusive",
            saved=result.saved,
            incumbent=None if result.incumbent is current else result.incumbent,
        )

    async def _beside(self, candidate: Measured, best: Measured) -> Measured:
        """The candidate, with what fails only with it and not with the best skill counted as 0."""
        replicates = range(self.replication.replicates)
        any_may_fail = self.runner.failure_counter(len(self.tasks) * len(replicates), 1.0)
        evaluation = await self.runner.settle(
            candidate.evaluation, candidate.skill, self.tasks, best, any_may_fail, replicates
        )
        if evaluation is candidate.evaluation:
            return candidate
        return self._valued(candidate, evaluation.ordered([task.id for task in self.tasks]))

    def _valued(self, skill: Measured, evaluation: Evaluation) -> Measured:
        if evaluation is skill.evaluation:
            return skill
        value = self.gate.value(skill.skill, evaluation)
        return replace(skill, evaluation=evaluation, value=value)

    def _due(self, candidate: Measured, incumbent: Measured, left: Sequence[str]) -> int:
        """How many tasks are started next: all up to the first look that could end it.

        That look would, if the candidate failed in all of them.
        """
        block = self.replication.block or max(1, len(left))
        for end in range(block, len(left), block):
            marks = [dict.fromkeys(left[:end], Score(0, 0))] * self.replication.replicates
            failed = Evaluation.over(candidate.evaluation.skill, "val", marks, {})
            worst = self._valued(candidate, candidate.evaluation.joined(failed))
            if self._foresee(worst, incumbent, left[end:]) is not None:
                return end
        return len(left)

    def _foresee(
        self, candidate: Measured, incumbent: Measured, left: Sequence[str]
    ) -> GateVerdict | None:
        if self.gate.forced or not left:
            return None
        verdict = self.gate.foresee(candidate, incumbent, left, level=self.level)
        if verdict is None or (verdict.finding == "inconclusive" and self._may_repeat(candidate)):
            return None
        return verdict

    async def _repeat_until_decided(
        self, candidate: Measured, incumbent: Measured
    ) -> CandidateResult:
        verdict = self.gate.judge(candidate, incumbent, level=self.level)
        while verdict.finding == "inconclusive" and self._may_repeat(candidate):
            tasks = self._worth_repeating(candidate.evaluation, incumbent.evaluation)
            if not self._could_decide(candidate, incumbent, tasks):
                break
            candidate, incumbent = await self._repeat(candidate, incumbent, tasks)
            verdict = self.gate.judge(candidate, incumbent, level=self.level)
        return CandidateResult(candidate, incumbent, verdict)

    def _may_repeat(self, candidate: Measured) -> bool:
        have = max(self.replication.replicates, len(candidate.evaluation.replicates))
        return have < self.replication.most

    def _worth_repeating(self, ours: Evaluation, theirs: Evaluation) -> Sequence[Task]:
        """Where more evidence is bought.

        Whether two attempts differ is the same with the sides exchanged. So, if the candidate is
        no better, the choice favours neither of them, and a test of what is bought together with
        what was there stays as sure as it says. To choose by who won would spoil it.
        """
        if not self.replication.changed_only:
            return self.tasks
        rounds = list(zip(ours.replicates, theirs.replicates, strict=False))

        def differ(task: str) -> bool:
            """One that has no score is not known to be alike."""
            changed = any(task in new and new[task] != old.get(task) for new, old in rounds)
            return changed or not ours.scored(task, 0)

        return [task for task in self.tasks if differ(task.id)]

    def _could_decide(
        self, candidate: Measured, incumbent: Measured, tasks: Sequence[Task]
    ) -> bool:
        """Whether the gate would be sure if all that can be bought went the candidate's way."""

        def granted(skill: Measured, mark: float) -> Measured:
            evaluation = skill.evaluation
            scores = {task.id: Score(mark, mark) for task in tasks}
            more = Evaluation(evaluation.skill, evaluation.split, scores)
            for number in range(len(candidate.evaluation.replicates), self.replication.most):
                if number >= len(evaluation.replicates):
                    evaluation = evaluation.plus(number, more)
            return replace(skill, evaluation=evaluation)

        best = self.gate.judge(granted(candidate, 1), granted(incumbent, 0), level=self.level)
        return best.finding == "better"

    async def _repeat(
        self, candidate: Measured, incumbent: Measured, tasks: Sequence[Task]
    ) -> tuple[Measured, Measured]:
        """Buy one more attempt at each of these tasks for both, so that luck has no side."""
        number = len(candidate.evaluation.replicates)

        async def once_more(known: Measured) -> Evaluation:
            missing = [task for task in tasks if not known.evaluation.scored(task.id, number)]
            if not missing:
                return known.evaluation
            more = await self.runner.measure(
                known.skill,
                known.evaluation.split,
                missing,
                f"replicate {number + 1} {known.skill.digest[:6]}",
                replicates=(number,),
                # They may be few, so a share of failures is one of everything that is known.
                beside=known.evaluation.n,
                # Failures of the candidate are settled below.
                max_failed=1.0 if known is candidate else None,
            )
            return known.evaluation.plus(number, more)

        ours, theirs = await map_all(once_more, (candidate, incumbent))
        incumbent = self._valued(incumbent, theirs)
        failures = self.runner.failure_counter(len(tasks), beside=candidate.evaluation.n)
        ours = await self.runner.settle(
            ours, candidate.skill, tasks, incumbent, failures, replicates=(number,)
        )
        return self._valued(candidate, ours.ordered([task.id for task in self.tasks])), incumbent


def _own_failures(candidate: Measured) -> str:
    own = len(candidate.evaluation.own_failures)
    if not own:
        return ""
    return f"; {counted(own, 'task')} failed only with the candidate, counted as 0"


def _left(order: Sequence[str], evaluation: Evaluation) -> list[str]:
    """The tasks that have not been met yet."""
    met = evaluation.scores.keys() | evaluation.failures.keys()
    return [task for task in order if task not in met]


def alpha_share(alpha: float, gates: Sequence[str], state: State) -> float:
    """The chance of a false accept that the next decision may have.

    What is left of `alpha` is shared equally among the gates (moves, by id) that are still to
    come; a move that made no candidate, or could not have accepted any, leaves its part to the
    others. `alpha` counts for the run as it was begun: with more epochs than then, it grows in
    proportion.
    """
    left = sum(gate not in state.closed for gate in gates)
    begun = len(gates) if state.gates == 0 else state.gates
    total = alpha * max(1.0, len(gates) / max(1, begun))
    return max(0.0, total - state.spent) / max(1, left)


def out_of_reach(
    gate: CompleteGate,
    replication: Replication,
    tasks: Sequence[str],
    incumbent: Measured,
    level: float,
) -> GateVerdict | None:
    """The verdict against every candidate at this level; None: one could be accepted.

    The gate judges the best that can happen: a candidate with full marks in all attempts that it
    may get, against an incumbent that fails in all that are still to be bought. It depends on the
    incumbent alone, so a decision that is out of reach cannot accept anything by luck.
    """
    if not gate.alpha:
        return None
    known = incumbent.evaluation
    have = known.replicates
    failed = dict.fromkeys(tasks, Score(0, 0))
    rounds = [_worst(have[: replication.replicates])] * len(have[: replication.replicates])
    for number in range(replication.replicates, replication.most):
        rounds.append({**failed, **(have[number] if number < len(have) else {})})
    least = Evaluation.over(known.skill, "val", rounds, {})
    full = dict.fromkeys(tasks, Score(1, 1))
    most = Evaluation.over("", "val", [full] * len(rounds), {})
    best = gate.judge(
        replace(incumbent, evaluation=most), replace(incumbent, evaluation=least), level=level
    )
    if best.finding == "better":
        return None
    return GateVerdict(best.finding, f"no candidate can be accepted: at best {best.reason}")


def _worst(rounds: Sequence[Mapping[str, Score]]) -> dict[str, Score]:
    """Of each task the worst attempt.

    A candidate that loses an attempt to a failure is compared with the incumbent's others.
    """
    worst: dict[str, Score] = {}
    for scores in rounds:
        for task, score in scores.items():
            known = worst.get(task, score)
            worst[task] = Score(min(known.hard, score.hard), min(known.soft, score.soft))
    return worst
