"""The noise of scores, and the smallest gain that a val split can detect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, comb, log2, sqrt
from statistics import NormalDist, fmean, variance
from typing import Literal

from skillopt.core.rollout import Evaluation
from skillopt.gates.compared import Metric

MOST = 5
"""Replicates per task beyond which more tasks are the better buy."""
MANY = 200
"""Tasks from which on stopping early pays more than it costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The error rates that count."""

    alpha: float
    """The chance of a false accept that the whole run may have."""
    decisions: int
    """How many share it."""
    shares: int = 1
    """Into how many parts a decision cuts its share: for candidates that race, for looks."""
    power: float = 0.8
    """How surely a real gain should be seen."""
    effect: float = 0.05
    """The gain that should be seen, as a difference of means."""

    @property
    def level(self) -> float:
        return self.alpha / (max(1, self.decisions) * self.shares)

    @property
    def reach(self) -> float:
        """How many standard errors a gain must measure."""
        normal = NormalDist()
        return normal.inv_cdf(1 - self.level) + normal.inv_cdf(self.power)

    @property
    def fewest(self) -> int:
        """Tasks that must be won, and none lost, before luck is ruled out."""
        return ceil(log2(1 / self.level))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The noise of scores, from two or more evaluations of one skill."""

    tasks: int
    """Number of tasks that were scored more than once."""
    replicates: int
    score: float
    flipping: float
    """Share of tasks whose second attempt got another score than the first."""
    noise: float
    """Variance of the score of one attempt around the mean of its task."""

    @property
    def floor(self) -> float:
        """Standard deviation of the difference between two evaluations of the same skill."""
        return sqrt(2 * self.noise / max(1, self.tasks))

    @property
    def luck(self) -> float:
        """Probability that a strict gate accepts a candidate without any effect."""
        n, share = self.tasks, self.flipping
        ties = sum(
            comb(n, k) * share**k * (1 - share) ** (n - k) * comb(k, k // 2) / 2**k
            for k in range(0, n + 1, 2)
        )
        return max(0.0, (1 - ties) / 2)

    def smallest(self, terms: Terms, replicates: int = 1) -> float | None:
        """The smallest gain that these tasks can detect; None if they can detect none."""
        low, high = 0.0, 1.0
        if self.needed(terms, high, replicates) > self.tasks:
            return None
        for _ in range(40):
            middle = (low + high) / 2
            seen = self.needed(terms, middle, replicates) <= self.tasks
            low, high = (low, middle) if seen else (middle, high)
        return high

    def needed(self, terms: Terms, effect: float, replicates: int = 1) -> int:
        """The number of tasks needed to detect a gain."""
        spread = 2 * self.noise / replicates + effect * (1 - effect)
        return max(ceil(terms.reach**2 * spread / effect**2), ceil(terms.fewest / effect))

    def advice(self, terms: Terms) -> Advice:
        replicates = self._replicates(terms)
        steady = self.luck <= terms.level
        gate = "strict" if steady else "sequential" if self.tasks >= MANY else "paired"
        return Advice(gate, replicates, self.needed(terms, terms.effect, replicates))

    def _replicates(self, terms: Terms) -> int:
        """As many as make the needed set at least a tenth smaller each."""
        for count in range(1, MOST):
            fewer = self.needed(terms, terms.effect, count + 1)
            if fewer > 0.9 * self.needed(terms, terms.effect, count):
                return count
        return MOST


@dataclass(frozen=True, slots=True)
class Advice:
    """Settings that would detect the given gain."""

    gate: Literal["strict", "paired", "sequential"]
    replicates: int
    val: int


def calibrated(evaluation: Evaluation, metric: Metric) -> Calibration | None:
    """What an evaluation tells about noise; None if no task was scored twice."""
    marks = [scores for scores in _marks(evaluation, metric) if len(scores) > 1]
    if not marks:
        return None
    return Calibration(
        tasks=len(marks),
        replicates=len(evaluation.replicates),
        score=metric(evaluation),
        flipping=fmean(first != second for first, second, *_ in marks),
        noise=fmean(variance(scores) for scores in marks),
    )


def _marks(evaluation: Evaluation, metric: Metric) -> Iterator[list[float]]:
    for task in evaluation.scores:
        yield [metric.of(scores[task]) for scores in evaluation.replicates if task in scores]
