"""Measures the effect of each rule: the same tasks with and without it."""

from __future__ import annotations

from skillopt.core.rollout import Evaluation
from skillopt.core.rules import Rule, Worth
from skillopt.evaluation.gates import EQUAL, Metric
from skillopt.evaluation.statistics import matched


def worth(rule: Rule, whole: Evaluation, less: Evaluation, metric: Metric) -> Worth:
    """Compare, task by task, the skill as it is with the skill without a rule."""
    new, old = whole.beside(less)
    gains = [metric.difference(new.scores[task], old.scores[task]) for task in new.scores]
    found = matched(gains)
    changed = sum(abs(each) > EQUAL for each in gains)
    return Worth(rule, found.mean, found.low, found.high, len(gains), changed)
