"""Scores as they are reported: never without number of items, interval and failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skillopt.core.rollout import Evaluation
from skillopt.core.state import State
from skillopt.core.task import Split
from skillopt.evaluation.statistics import Interval, interval, matched


def outcome(evaluation: Evaluation) -> dict[str, object]:
    """What one evaluation says."""
    hard = interval(score.hard for score in evaluation.scores.values())
    return {
        "n_scored": evaluation.n,
        "n_failures": len(evaluation.failures),
        "hard": evaluation.hard,
        "hard_interval_95": [round(hard.low, 6), round(hard.high, 6)],
        "soft": evaluation.soft,
        **_replicated(evaluation),
    }


def _replicated(evaluation: Evaluation) -> dict[str, object]:
    if not evaluation.rounds:
        return {}
    return {"replicates": len(evaluation.rounds), "passed_every_time": evaluation.passed}


def lift(before: Evaluation, after: Evaluation) -> Interval:
    """How much better the second is, paired over the tasks that both have scored."""
    return matched(
        after.scores[task].hard - before.scores[task].hard for task in _common(before, after)
    )


FEW = 6
"""Changed items below which nothing is sure: five heads in a row still come up too often."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a run can claim."""

    split: Split
    """Where it was seen."""
    gain: Interval
    """Of the best skill over the initial one, paired, 95 %."""
    n: int
    """Items that both have scored."""
    changed: int
    """Those of them whose score differs."""
    failures: int
    """Attempts of the two without a score."""

    @property
    def conclusive(self) -> bool:
        """Whether the interval excludes 0, on more items than luck would change."""
        return self.changed >= FEW and (self.gain.low > 0 or self.gain.high < 0)

    def words(self) -> str:
        """The same in a sentence."""
        gain = f"{self.gain.mean:+.3f} [{self.gain.low:+.2f}, {self.gain.high:+.2f}]"
        seen = f"{gain} on {self.n} {self.split} items, {self.changed} of them changed"
        lost = f"; {self.failures} attempts failed" if self.failures else ""
        return f"{self._verdict()}: {seen}{lost}"

    def _verdict(self) -> str:
        if self.split != "test":
            # The best of several candidates looks better on the items that it was chosen by.
            return "not tested (val chose the skill, so its gain flatters)"
        if not self.changed:
            return "no difference"
        if self.conclusive:
            return "conclusive, better" if self.gain.low > 0 else "conclusive, worse"
        return "not conclusive (no change is possible too)"


def claim(state: State) -> Claim:
    """What the run has shown so far: on the test items, or else on those that chose the skill."""
    exam = state.exam
    if exam is None:
        return _compare("val", state.initial.evaluation, state.best.evaluation)
    return _compare("test", exam.initial, exam.best)


def _compare(split: Split, before: Evaluation, after: Evaluation) -> Claim:
    both = [(before.scores[task], after.scores[task]) for task in _common(before, after)]
    changed = sum(old.hard != new.hard for old, new in both)
    # The same evaluation is not counted twice.
    failures = len(before.failures) + (before.skill != after.skill) * len(after.failures)
    return Claim(split, lift(before, after), len(both), changed, failures)


def _common(before: Evaluation, after: Evaluation) -> list[str]:
    return [task for task in after.scores if task in before.scores]


def figures(state: State) -> Mapping[str, object]:
    """What the summary of a run says beyond the bare means."""
    shown = claim(state)
    found: dict[str, object] = {
        "claim": {
            "split": shown.split,
            "lift": round(shown.gain.mean, 6),
            "lift_interval_95": [round(shown.gain.low, 6), round(shown.gain.high, 6)],
            "n": shown.n,
            "n_changed": shown.changed,
            "n_failures": shown.failures,
            "conclusive": shown.split == "test" and shown.conclusive,
            "words": shown.words(),
        },
        "selection": {
            "initial": outcome(state.initial.evaluation),
            "best": outcome(state.best.evaluation),
            "last": outcome(state.current.evaluation),
        },
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
