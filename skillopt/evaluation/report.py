"""Scores as they are reported: never without number of items, interval and failures."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.core.rollout import Evaluation
from skillopt.core.state import State
from skillopt.evaluation.statistics import Interval, interval, paired


def outcome(evaluation: Evaluation) -> dict[str, object]:
    """What one evaluation says."""
    hard = interval(score.hard for score in evaluation.scores.values())
    return {
        "n_scored": evaluation.n,
        "n_failures": len(evaluation.failures),
        "hard": evaluation.hard,
        "hard_interval_95": [round(hard.low, 6), round(hard.high, 6)],
        "soft": evaluation.soft,
    }


def lift(before: Evaluation, after: Evaluation) -> Interval:
    """How much better the second is, paired over the tasks that both have scored."""
    common = [task for task in after.scores if task in before.scores]
    return paired(after.scores[task].hard - before.scores[task].hard for task in common)


def figures(state: State) -> Mapping[str, object]:
    """What the summary of a run says beyond the bare means."""
    found: dict[str, object] = {
        "selection": {
            "initial": outcome(state.initial.evaluation),
            "best": outcome(state.best.evaluation),
            "last": outcome(state.current.evaluation),
        }
    }
    if state.exam is not None:
        found["test"] = {
            "initial": outcome(state.exam.initial),
            "best": outcome(state.exam.best),
            "last": outcome(state.exam.last),
        }
        gain = lift(state.exam.initial, state.exam.best)
        found["test_lift_interval_95"] = [round(gain.low, 6), round(gain.high, 6)]
    return found
