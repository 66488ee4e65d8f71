"""Gates that compare scores as they are, and the number that skills are ranked by."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import ClassVar

from typing_extensions import Self

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.rollout import EQUAL, Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.core.wording import counted

DIRECTIVE_WORDS = (
    "must",
    "always",
    "never",
    "only",
    "critical",
    "important",
    "resolve",
    "prefer",
    "ensure",
    "strict",
    "verify",
)
"""Words that lead, unless the user names others."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Density:
    """`weight` times the share of leading words in the body; protected regions do not count."""

    weight: float
    words: tuple[str, ...] = DIRECTIVE_WORDS

    def __call__(self, skill: Skill) -> float:
        leading = {word.casefold() for word in self.words}
        words = [word.casefold() for word in _WORD.findall(skill.body)]
        return self.weight * (sum(word in leading for word in words) / max(1, len(words)))


@dataclass(frozen=True, slots=True)
class Metric:
    """The number that skills are ranked by: hard, soft, or a mixture of both."""

    soft_weight: float = 0.0
    density: Density | None = None
    """What the text itself earns; None: nothing."""

    @property
    def name(self) -> str:
        """`hard`, `soft`, or the mixture with its weight: `mixed 0.3`."""
        named = {0.0: "hard", 1.0: "soft"}
        return named.get(self.soft_weight, f"mixed {self.soft_weight:g}")

    def __call__(self, evaluation: Evaluation) -> float:
        return self.mark(evaluation.hard, evaluation.soft)

    def mark(self, hard: float, soft: float) -> float:
        if self.soft_weight == 0:
            return hard
        return (1 - self.soft_weight) * hard + self.soft_weight * soft

    def of(self, score: Score) -> float:
        return self.mark(score.hard, score.soft)

    def marks(self, evaluation: Evaluation) -> dict[str, float]:
        return {task: self.of(score) for task, score in evaluation.scores.items()}

    def difference(self, new: Score, old: Score) -> float:
        return self.of(new) - self.of(old)

    def differences(self, new: Evaluation, old: Evaluation) -> list[float]:
        """By how much each task of the old evaluation went better; both must have all of them."""
        return [self.difference(new.scores[task], score) for task, score in old.scores.items()]

    def bonus(self, skill: Skill) -> float:
        """What a skill earns by its text, on top of its scores."""
        return 0.0 if self.density is None else self.density(skill)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSettings:
    gate_metric: str = "hard"
    gate_mixed_weight: float = 0.5
    use_semantic_density: bool = False
    semantic_density_weight: float = 0.05
    leading_words: tuple[str, ...] | None = None

    @property
    def metric(self) -> Metric:
        weights = {"hard": 0.0, "soft": 1.0, "mixed": self.gate_mixed_weight}
        words = DIRECTIVE_WORDS if self.leading_words is None else self.leading_words
        density = Density(self.semantic_density_weight, words)
        return Metric(weights[self.gate_metric], density if self.use_semantic_density else None)


@dataclass(frozen=True, slots=True)
class RankedByMetric:
    """What all gates here have: they rank skills by a metric, and compare common attempts."""

    metric: Metric
    forced: bool = False
    alpha: float = 0.0

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        """The metric of the scores, and the bonus of the text."""
        return self.metric(evaluation) + self.metric.bonus(skill)

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> list[str]:
        """Where most can be gained first; what cannot be compared last."""
        return sorted(tasks, key=lambda task: -self.room(task, incumbent))

    def room(self, task: str, incumbent: Evaluation) -> float:
        """The most that a candidate can gain on a task.

        Where some of its attempts fail, it is compared with the incumbent's other ones.
        """
        scores = [scores[task] for scores in incumbent.replicates if task in scores]
        return max((1 - self.metric.of(score) for score in scores), default=0.0)

    def differences(self, candidate: Measured, incumbent: Measured) -> list[float]:
        """By how much the candidate is better on each task that both have a score for."""
        return self.metric.differences(*candidate.evaluation.beside(incumbent.evaluation))


@dataclass(frozen=True, slots=True)
class Strict(RankedByMetric):
    """Accept only a strictly better mean over the tasks that both evaluations scored."""

    Settings: ClassVar[type[MetricSettings]] = MetricSettings
    decisive: ClassVar[bool] = True

    ties: bool = False
    """Whether an equal mean is good enough: for candidates that are better by being shorter."""

    @classmethod
    def from_settings(cls, settings: MetricSettings) -> Self:
        return cls(settings.metric)

    def fewest_wins(self, level: float = 0.0) -> int | None:
        return 0 if self.ties else 1

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float = 0.0
    ) -> GateVerdict | None:
        """No better, if it would not be with full marks on all tasks left.

        The bonus of the text counts once for every task that is compared; one that turns out to
        have no score adds nothing.
        """
        known = incumbent.evaluation
        bonus = self.metric.bonus(candidate.skill) - self.metric.bonus(incumbent.skill)
        gained = [gain + bonus for gain in self.differences(candidate, incumbent)]
        most = [max(0.0, self.room(task, known) + bonus) for task in left if task in known.scores]
        # Below what counts as equal by a margin that no rounding can bridge.
        bar = -2 * EQUAL * (len(gained) + len(left)) if self.ties else 0.0
        if fsum([*gained, *most]) > bar:
            return None
        ours = self.value(candidate.skill, candidate.evaluation.granting(left))
        theirs = self.value(incumbent.skill, known)
        relation = "<" if self.ties else "<="
        met = _met(candidate, left)
        return GateVerdict("not_better", f"at most {ours:.4f} {relation} {theirs:.4f}, {met}")

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float = 0.0) -> GateVerdict:
        """Compare means on the common tasks; without any, a text alone is not better."""
        new, old = candidate.evaluation.beside(incumbent.evaluation)
        if not new.n:
            return GateVerdict("not_better", "no task was scored for both skills")
        ours, theirs = self.value(candidate.skill, new), self.value(incumbent.skill, old)
        better = ours >= theirs - EQUAL if self.ties else ours > theirs + EQUAL
        above, below = (">=", "<") if self.ties else (">", "<=")
        reason = f"{ours:.4f} {above if better else below} {theirs:.4f} on {counted(new.n, 'task')}"
        return GateVerdict("better" if better else "not_better", reason)


@dataclass(frozen=True, slots=True)
class Always(Strict):
    """Every candidate becomes current; it becomes best only if it is better."""

    forced: bool = True


@dataclass(frozen=True, slots=True)
class NotWorse(Strict):
    """Accept a mean that is not lower: for candidates whose repairs were confirmed before.

    That is what selector `credit` does. A rule that no validation task needs can enter only so.
    """

    ties: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRegressionSettings(MetricSettings):
    must_pass: tuple[str, ...] = ()
    max_broken: float = 0.0


@dataclass(frozen=True, slots=True)
class NoRegression(RankedByMetric):
    """Accept a strictly better mean that breaks little: tasks passed before are still passed."""

    Settings: ClassVar[type[NoRegressionSettings]] = NoRegressionSettings

    must_pass: frozenset[str] = frozenset()
    """Tasks that no accepted candidate may break."""
    max_broken: float = 0.0
    """The share of tasks that may be passed before and not any more."""
    ties: bool = False

    @classmethod
    def from_settings(cls, settings: NoRegressionSettings) -> Self:
        must_pass = frozenset(settings.must_pass)
        return cls(settings.metric, must_pass=must_pass, max_broken=settings.max_broken)

    def for_shorter(self) -> NoRegression:
        """What must not break may not break here either."""
        return replace(self, ties=True)

    @property
    def strict(self) -> Strict:
        """What is asked of the means."""
        return Strict(self.metric, ties=self.ties)

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> list[str]:
        """First what must pass, then as a strict gate."""
        order = self.strict.order(tasks, skill, incumbent)
        return sorted(order, key=lambda task: task not in self.must_pass)

    def fewest_wins(self, level: float = 0.0) -> int | None:
        return self.strict.fewest_wins()

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float = 0.0
    ) -> GateVerdict | None:
        """No better, if enough is broken already, or if the mean cannot become better."""
        broken = _broken(candidate, incumbent)
        most = self.max_broken * len(incumbent.evaluation.scores)
        if self.must_pass.isdisjoint(broken) and len(broken) <= most:
            return self.strict.foresee(candidate, incumbent, left)
        return GateVerdict("not_better", f"broke {_named(broken)}, {_met(candidate, left)}")

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float = 0.0) -> GateVerdict:
        """Look for what is broken, then compare means."""
        common, _ = incumbent.evaluation.beside(candidate.evaluation)
        broken = _broken(candidate, incumbent)
        if lost := self.must_pass.intersection(broken):
            reason = f"broke {_named(lost)}, which must pass (evaluation.must_pass)"
            return GateVerdict("not_better", reason)
        if len(broken) > self.max_broken * common.n:
            reason = f"broke {len(broken)} of {common.n} tasks: {_named(broken)}"
            return GateVerdict("not_better", reason)
        verdict = self.strict.judge(candidate, incumbent)
        unknown = self.must_pass.difference(common.scores)
        if verdict.finding == "better" and unknown:
            reason = f"{_named(unknown)} must pass (evaluation.must_pass) but has no score"
            return GateVerdict("inconclusive", reason)
        return GateVerdict(verdict.finding, f"{verdict.reason}, {len(broken)} broken")


def _met(candidate: Measured, left: Collection[str]) -> str:
    met = len(candidate.evaluation.scores)
    return f"after {met} of {met + len(left)} tasks"


def _broken(candidate: Measured, incumbent: Measured) -> list[str]:
    """The tasks that are passed no more."""
    new, old = candidate.evaluation.beside(incumbent.evaluation)
    return [task for task, was in old.scores.items() if was.passed > new.scores[task].passed]


def _named(tasks: Iterable[str], most: int = 5) -> str:
    names = sorted(tasks)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
