"""Scores for reports, with metric, number of items, interval and failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skillopt.core.rollout import EQUAL, Evaluation
from skillopt.core.state import State
from skillopt.core.task import Split
from skillopt.core.wording import counted
from skillopt.gates.compared import Metric
from skillopt.gates.statistics import Interval, interval, matched

HARD, SOFT = Metric(0.0), Metric(1.0)


def metric_of(state: State) -> Metric:
    """The number that skills of a run are ranked by, without what a text earns by itself."""
    return Metric(state.soft_weight)


def shown_metrics(metric: Metric) -> list[Metric]:
    """All that a report shows: the metric of the run, then the others."""
    return [metric, *(other for other in (HARD, SOFT) if other.soft_weight != metric.soft_weight)]


def mean(evaluation: Evaluation, metric: Metric) -> Interval:
    return interval(metric.marks(evaluation).values())


def outcome(evaluation: Evaluation, metric: Metric) -> dict[str, object]:
    """What one evaluation says, in the metric that counts and in the others."""
    return {
        "n_scored": evaluation.n,
        "n_failures": len(evaluation.failures),
        "metric": metric.name,
        "score": metric(evaluation),
        "score_interval_95": _ends(mean(evaluation, metric)),
        "hard": evaluation.hard,
        "hard_interval_95": _ends(mean(evaluation, HARD)),
        "soft": evaluation.soft,
        "soft_interval_95": _ends(mean(evaluation, SOFT)),
        **({"n_own_failures": len(evaluation.own_failures)} if evaluation.own_failures else {}),
        **_replicated(evaluation),
    }


def _replicated(evaluation: Evaluation) -> dict[str, object]:
    if not evaluation.rounds:
        return {}
    return {"replicates": len(evaluation.rounds), "passed_every_time": evaluation.passed}


def lift(before: Evaluation, after: Evaluation, metric: Metric = HARD) -> Interval:
    """How much better the second is, paired over the tasks that both have scored."""
    return matched(_changes(before, after, metric))


FEW = 6
"""Fewer changed items than this are never conclusive: five heads in a row are not rare enough."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The result of a run: the gain of the best skill over the initial one."""

    split: Split
    metric: str
    """The metric in which skills are compared."""
    gain: Interval
    """Mean paired difference with its 95 % interval."""
    n: int
    """Items that have a score with both skills."""
    changed: int
    failures: int
    """Attempts without a score, of both skills."""
    own_failures: int = 0
    """Items that failed only with the best skill; they count as 0."""

    @property
    def conclusive(self) -> bool:
        """Whether the interval excludes 0 and enough items changed."""
        return self.changed >= FEW and (self.gain.low > 0 or self.gain.high < 0)

    def words(self) -> str:
        """The result as a sentence."""
        gain = f"{self.gain.mean:+.3f} [{self.gain.low:+.2f}, {self.gain.high:+.2f}]"
        seen = f"{gain} on {counted(self.n, f'{self.split} item')}, {self.changed} of them changed"
        lost = f"; {counted(self.failures, 'attempt')} failed" if self.failures else ""
        if self.own_failures:
            lost += f"; {self.own_failures} failed only with the best skill, counted as 0"
        return f"{self._verdict()}: {self.metric} score {seen}{lost}"

    def _verdict(self) -> str:
        if self.split != "test":
            # The best of several candidates looks better on the items that it was chosen by.
            return "not tested (val selected the skill, so its gain is biased upwards)"
        if not self.changed:
            return "no difference"
        if self.conclusive:
            return "conclusive, better" if self.gain.low > 0 else "conclusive, worse"
        if self.gain.low > 0 or self.gain.high < 0:
            return f"not conclusive (fewer than {FEW} items changed, which may be luck)"
        return "not conclusive (no change is also possible)"


def claim(state: State, metric: Metric | None = None) -> Claim:
    """What the run has shown so far: on the test items, or else on those that chose the skill.

    In the metric of the run unless another one is named.
    """
    by = metric_of(state) if metric is None else metric
    final_test = state.final_test
    if final_test is None:
        return _compare("val", state.initial.evaluation, state.best.evaluation, by)
    return _compare("test", final_test.initial, final_test.best, by)


def _compare(split: Split, before: Evaluation, after: Evaluation, metric: Metric) -> Claim:
    changes = _changes(before, after, metric)
    changed = sum(abs(change) > EQUAL for change in changes)
    # The same evaluation is not counted twice.
    failures = len(before.failures) + (before.skill != after.skill) * len(after.failures)
    gain, own = matched(changes), len(after.own_failures)
    return Claim(split, metric.name, gain, len(changes), changed, failures, own)


def _changes(before: Evaluation, after: Evaluation, metric: Metric) -> list[float]:
    """Task by task; a skill that was measured twice is no better than itself."""
    common = [task for task in after.scores if task in before.scores]
    if before.skill == after.skill:
        return [0.0] * len(common)
    return [metric.difference(after.scores[task], before.scores[task]) for task in common]


_FLATTERED = (
    "the best skill was selected by these scores, so its own is biased upwards; test scores are not"
)


def figures(state: State) -> Mapping[str, object]:
    """What the summary of a run says beyond the bare means."""
    metric = metric_of(state)
    shown = claim(state)
    found: dict[str, object] = {
        "metric": metric.name,
        "claim": {
            "split": shown.split,
            **_told(shown),
            "n": shown.n,
            "n_failures": shown.failures,
            **({"n_own_failures": shown.own_failures} if shown.own_failures else {}),
            "conclusive": shown.split == "test" and shown.conclusive,
            "words": shown.words(),
            "other_metrics": [_told(claim(state, other)) for other in shown_metrics(metric)[1:]],
        },
        "selection": {
            "initial": outcome(state.initial.evaluation, metric),
            "best": outcome(state.best.evaluation, metric),
            "last": outcome(state.current.evaluation, metric),
            "note": _FLATTERED,
        },
    }
    if state.final_test is not None:
        initial, best, last = (
            outcome(evaluation, metric)
            for evaluation in (
                state.final_test.initial,
                state.final_test.best,
                state.final_test.last,
            )
        )
        found["test"] = {"initial": initial, "best": best, "last": last}
        found["baseline_test_score"] = initial["score"]
        found["test_score"] = best["score"]
        found["final_test_score"] = last["score"]
        found["test_lift_interval_95"] = _ends(shown.gain)
    return found


def _told(shown: Claim) -> dict[str, object]:
    return {
        "metric": shown.metric,
        "lift": round(shown.gain.mean, 6),
        "lift_interval_95": _ends(shown.gain),
        "n_changed": shown.changed,
    }


def _ends(found: Interval) -> list[float]:
    return [round(found.low, 6), round(found.high, 6)]
