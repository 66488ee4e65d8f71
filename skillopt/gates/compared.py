"""Gates that compare scores as they are, and the number that skills are ranked by."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import ClassVar

from typing_extensions import Self

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill

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
"""Words that lead: unless the user names others."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Density:
    """`weight` times the share of leading words in the body; protected regions do not count."""

    weight: float
    words: tuple[str, ...] = DIRECTIVE_WORDS
    _folded: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Capitals do not matter."""
        object.__setattr__(self, "_folded", frozenset(word.casefold() for word in self.words))

    def __call__(self, skill: Skill) -> float:
        """The bonus: at most the weight, and 0 for a skill without words."""
        said = [word.casefold() for word in _WORD.findall(skill.body)]
        leading = sum(word in self._folded for word in said)
        return self.weight * (leading / len(said)) if said else 0.0


EQUAL = 1e-12
"""Means that differ by less are the same."""


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
        """Mix the two means."""
        return self.mark(evaluation.hard, evaluation.soft)

    def mark(self, hard: float, soft: float) -> float:
        """Mix two numbers."""
        if self.soft_weight == 0:
            return hard
        return (1 - self.soft_weight) * hard + self.soft_weight * soft

    def of(self, score: Score) -> float:
        """The number for one attempt."""
        return self.mark(score.hard, score.soft)

    def marks(self, evaluation: Evaluation) -> dict[str, float]:
        """The number for each task."""
        return {task: self.of(score) for task, score in evaluation.scores.items()}

    def difference(self, new: Score, old: Score) -> float:
        """By how much one attempt at a task is better than another."""
        return self.of(new) - self.of(old)

    def bonus(self, skill: Skill) -> float:
        """What a skill earns by its text, on top of its scores."""
        return 0.0 if self.density is None else self.density(skill)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSettings:
    """The settings of the number that skills are ranked by."""

    gate_metric: str = "hard"
    gate_mixed_weight: float = 0.5
    use_semantic_density: bool = False
    semantic_density_weight: float = 0.05
    leading_words: tuple[str, ...] | None = None

    @property
    def metric(self) -> Metric:
        """The number."""
        weights = {"hard": 0.0, "soft": 1.0, "mixed": self.gate_mixed_weight}
        words = DIRECTIVE_WORDS if self.leading_words is None else self.leading_words
        density = Density(self.semantic_density_weight, words)
        return Metric(weights[self.gate_metric], density if self.use_semantic_density else None)


@dataclass(frozen=True, slots=True)
class Strict:
    """Accept only a strictly better mean over the tasks that both evaluations scored."""

    Settings: ClassVar[type[MetricSettings]] = MetricSettings
    decisive: ClassVar[bool] = True

    metric: Metric
    forced: bool = False
    alpha: float = 0.0
    ties: bool = False
    """Whether an equal mean is good enough: for candidates that are better by being shorter."""

    @classmethod
    def from_settings(cls, settings: MetricSettings) -> Self:
        """With the metric of the settings."""
        return cls(settings.metric)

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
        marks = [each[task] for each in incumbent.replicates if task in each]
        return max((1 - self.metric.of(each) for each in marks), default=0.0)

    def fewest_wins(self, level: float = 0.0) -> int | None:
        """One; none where a tie is enough."""
        return 0 if self.ties else 1

    def foresee(
        self,
        candidate: Measured,
        incumbent: Measured,
        left: Collection[str],
        *,
        level: float = 0.0,
    ) -> GateVerdict | None:
        """No better, if it would not be with full marks on all tasks left.

        The bonus of the text counts once for every task that is compared; one that turns out to
        have no score adds nothing.
        """
        bonus = self.metric.bonus(candidate.skill) - self.metric.bonus(incumbent.skill)
        new, old = candidate.evaluation.beside(incumbent.evaluation)
        differ = self.metric.difference
        gained = [differ(new.scores[task], old.scores[task]) + bonus for task in old.scores]
        room = [self.room(task, incumbent.evaluation) for task in left]
        known = [task in incumbent.evaluation.scores for task in left]
        most = [max(0.0, each + bonus) for each, scored in zip(room, known, strict=True) if scored]
        # Below what counts as equal by a margin that no rounding can bridge.
        bar = -2 * EQUAL * (len(gained) + len(left)) if self.ties else 0.0
        if fsum([*gained, *most]) > bar:
            return None
        ours = self.value(candidate.skill, candidate.evaluation.granting(left))
        theirs = self.value(incumbent.skill, incumbent.evaluation)
        met = len(candidate.evaluation.scores)
        relation = "<" if self.ties else "<="
        return GateVerdict(
            "not_better",
            f"at most {ours:.4f} {relation} {theirs:.4f}, after {met} of {met + len(left)} tasks",
        )

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float = 0.0) -> GateVerdict:
        """Compare means on the common tasks; without any, a text alone is not better."""
        new, old = candidate.evaluation.beside(incumbent.evaluation)
        ours = self.value(candidate.skill, new)
        theirs = self.value(incumbent.skill, old)
        better = ours >= theirs - EQUAL if self.ties else ours > theirs + EQUAL
        if not new.n:
            return GateVerdict("not_better", "no task was scored for both skills")
        above, below = (">=", "<") if self.ties else (">", "<=")
        relation = above if better else below
        reason = f"{ours:.4f} {relation} {theirs:.4f} on {new.n} tasks"
        return GateVerdict("better" if better else "not_better", reason)


@dataclass(frozen=True, slots=True)
class Always(Strict):
    """Every candidate becomes current; it becomes best only if it is better."""

    forced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRegressionSettings(MetricSettings):
    """The settings of `NoRegression`."""

    must_pass: tuple[str, ...] = ()
    max_broken: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRegression:
    """Accept a strictly better mean that breaks little: tasks passed before are still passed."""

    Settings: ClassVar[type[NoRegressionSettings]] = NoRegressionSettings

    strict: Strict
    must_pass: frozenset[str] = frozenset()
    """Tasks that no accepted candidate may break."""
    max_broken: float = 0.0
    """The share of tasks that may be passed before and not any more."""
    forced: bool = False
    alpha: float = 0.0

    @classmethod
    def from_settings(cls, settings: NoRegressionSettings) -> Self:
        """With the metric and the conditions of the settings."""
        return cls(
            strict=Strict(settings.metric),
            must_pass=frozenset(settings.must_pass),
            max_broken=settings.max_broken,
        )

    def for_shorter(self) -> NoRegression:
        """What must not break may not break here either."""
        return replace(self, strict=replace(self.strict, ties=True))

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        """As of a strict gate."""
        return self.strict.value(skill, evaluation)

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> list[str]:
        """First what must pass, then as a strict gate."""
        found = self.strict.order(tasks, skill, incumbent)
        return sorted(found, key=lambda task: task not in self.must_pass)

    def fewest_wins(self, level: float = 0.0) -> int | None:
        """As of a strict gate."""
        return self.strict.fewest_wins()

    def foresee(
        self,
        candidate: Measured,
        incumbent: Measured,
        left: Collection[str],
        *,
        level: float = 0.0,
    ) -> GateVerdict | None:
        """No better, if enough is broken already, or if the mean cannot become better."""
        broken = _broken(candidate, incumbent)
        most = self.max_broken * len(incumbent.evaluation.scores)
        if self.must_pass.isdisjoint(broken) and len(broken) <= most:
            return self.strict.foresee(candidate, incumbent, left)
        met = len(candidate.evaluation.scores)
        broke = f"broke {_named(broken)}"
        return GateVerdict("not_better", f"{broke}, after {met} of {met + len(left)} tasks")

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float = 0.0) -> GateVerdict:
        """Look for what is broken, then compare means."""
        new, old = candidate.evaluation.beside(incumbent.evaluation)
        broken = _broken(candidate, incumbent)
        if lost := self.must_pass.intersection(broken):
            return GateVerdict(
                "not_better", f"broke {_named(lost)}, which must pass (evaluation.must_pass)"
            )
        if len(broken) > self.max_broken * new.n:
            return GateVerdict(
                "not_better", f"broke {len(broken)} of {new.n} tasks: {_named(broken)}"
            )
        better = self.strict.judge(candidate, incumbent)
        unknown = self.must_pass.difference(old.scores)
        if better.finding == "better" and unknown:
            return GateVerdict(
                "inconclusive",
                f"{_named(unknown)} must pass (evaluation.must_pass) but has no score",
            )
        return GateVerdict(better.finding, f"{better.reason}, {len(broken)} broken")


def _broken(candidate: Measured, incumbent: Measured) -> list[str]:
    """The tasks that are passed no more."""
    new, old = candidate.evaluation.beside(incumbent.evaluation)
    return [task for task, was in old.scores.items() if was.passed > new.scores[task].passed]


def _named(tasks: Iterable[str], most: int = 5) -> str:
    found = sorted(tasks)
    return ", ".join(found[:most]) + (", ..." if len(found) > most else "")
