"""When to accept a candidate."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill


@dataclass(frozen=True, slots=True)
class Metric:
    """The number that skills are ranked by: hard, soft, or a mixture of both."""

    soft_weight: float = 0.0

    def __call__(self, evaluation: Evaluation) -> float:
        """Mix the two means."""
        if self.soft_weight == 0:
            return evaluation.hard
        return (1 - self.soft_weight) * evaluation.hard + self.soft_weight * evaluation.soft


@dataclass(frozen=True, slots=True)
class Strict:
    """Accept only a strictly better mean over the tasks that both evaluations scored."""

    metric: Metric
    forced: bool = False

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        """The metric; the text itself earns nothing."""
        return self.metric(evaluation)

    def better(self, candidate: Measured, incumbent: Measured) -> tuple[bool, str]:
        """Compare means on the common tasks."""
        new, old = candidate.evaluation, incumbent.evaluation
        common = new.scores.keys() & old.scores.keys()
        ours, theirs = self.metric(new.on(common)), self.metric(old.on(common))
        better = ours > theirs + 1e-12
        relation = ">" if better else "<="
        return better, f"{ours:.4f} {relation} {theirs:.4f} on {len(common)} tasks"


def always(metric: Metric) -> Strict:
    """Every candidate becomes current; it becomes best only if it is better."""
    return Strict(metric, forced=True)
