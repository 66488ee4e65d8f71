"""When to accept a candidate."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.evaluation.density import Density


@dataclass(frozen=True, slots=True)
class Metric:
    """The number that skills are ranked by: hard, soft, or a mixture of both."""

    soft_weight: float = 0.0
    density: Density | None = None
    """What the text itself earns; None: nothing."""

    def __call__(self, evaluation: Evaluation) -> float:
        """Mix the two means."""
        if self.soft_weight == 0:
            return evaluation.hard
        return (1 - self.soft_weight) * evaluation.hard + self.soft_weight * evaluation.soft

    def bonus(self, skill: Skill) -> float:
        """What a skill earns by its text, on top of its scores."""
        return 0.0 if self.density is None else self.density(skill)


@dataclass(frozen=True, slots=True)
class Strict:
    """Accept only a strictly better mean over the tasks that both evaluations scored."""

    metric: Metric
    forced: bool = False

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        """The metric of the scores, and the bonus of the text."""
        return self.metric(evaluation) + self.metric.bonus(skill)

    def better(self, candidate: Measured, incumbent: Measured) -> tuple[bool, str]:
        """Compare values on the common tasks."""
        new, old = candidate.evaluation, incumbent.evaluation
        common = new.scores.keys() & old.scores.keys()
        ours = self.value(candidate.skill, new.on(common))
        theirs = self.value(incumbent.skill, old.on(common))
        better = ours > theirs + 1e-12
        relation = ">" if better else "<="
        return better, f"{ours:.4f} {relation} {theirs:.4f} on {len(common)} tasks"


def always(metric: Metric) -> Strict:
    """Every candidate becomes current; it becomes best only if it is better."""
    return Strict(metric, forced=True)
