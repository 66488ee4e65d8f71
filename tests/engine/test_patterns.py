"""What the attempts of a step have in common, for the memory of later steps."""

from __future__ import annotations

from skillopt.core.proposal import Finding, Pattern, Source
from skillopt.core.rollout import Failure, Outcome, Rollout, Score
from skillopt.engine.loop import patterns_in


def finding(source: Source, *patterns: Pattern) -> Finding:
    return Finding(source=source, batch=0, number=0, tasks=("t",), patterns=patterns)


def rollout(task: str, outcome: Outcome) -> Rollout:
    return Rollout(task=task, skill="x", outcome=outcome)


def test_patterns_of_failures_are_united_by_name_the_most_frequent_first() -> None:
    found = patterns_in(
        [
            finding("failure", Pattern("Units", 2, "", ("b", "c")), Pattern("Sign", 3, "wrong")),
            finding("success", Pattern("Works", 9)),
            finding("failure", Pattern("units", 2, "missing", ("a", "b"))),
        ],
        [rollout("t", Score(0, 0, "format: no tag"))],
    )
    assert found == (
        Pattern("Units", 4, "missing", ("a", "b", "c")),
        Pattern("Sign", 3, "wrong"),
    )


def test_without_patterns_of_an_analyst_equal_feedback_is_one() -> None:
    found = patterns_in(
        [finding("success", Pattern("Works", 9))],
        [
            rollout("a", Score(0, 0, "format: no tag")),
            rollout("b", Score(0, 0.5)),
            rollout("c", Score(0, 0, "format : two tags")),
            rollout("d", Score(1, 1, "right")),
            rollout("e", Failure("ModelError", "down")),
        ],
    )
    assert found == (Pattern("format", 2, "", ("a", "c")), Pattern("failed", 1, "", ("b",)))
