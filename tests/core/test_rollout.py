from __future__ import annotations

import pytest

from skillopt.core.rollout import Evaluation, Failure, Rollout, Score

DOWN = Failure("ModelError", "down")


def attempt(task: str, replicate: int, outcome: Failure | float) -> Rollout:
    found = outcome if isinstance(outcome, Failure) else Score(outcome, outcome)
    return Rollout(task=task, skill="s", outcome=found, replicate=replicate)


def test_a_tasks_score_is_the_mean_of_its_replicates_and_passed_means_every_time() -> None:
    marks = {"a": (1.0, 0.0), "b": (1.0, 1.0), "c": (0.0, 0.0)}
    rollouts = [
        attempt(task, number, score)
        for task, scores in marks.items()
        for number, score in enumerate(scores)
    ]
    found = Evaluation.of("s", "val", rollouts)
    assert {task: score.hard for task, score in found.scores.items()} == {"a": 0.5, "b": 1, "c": 0}
    assert (found.n, found.hard, found.passed) == (3, 0.5, pytest.approx(1 / 3))


def test_a_task_is_lost_only_if_none_of_its_replicates_has_a_score() -> None:
    rollouts = [
        attempt("a", 0, DOWN),
        attempt("a", 1, 1.0),
        attempt("b", 0, DOWN),
        attempt("b", 1, DOWN),
    ]
    found = Evaluation.of("s", "val", rollouts)
    assert found.scores == {"a": Score(1, 1)}
    assert found.failures == {"b": DOWN}
    assert [len(marks) for marks in found.replicates] == [0, 1]


def test_one_attempt_per_task_is_kept_without_rounds() -> None:
    found = Evaluation.of("s", "val", [attempt("a", 0, 1.0), attempt("b", 0, DOWN)])
    assert (found.rounds, found.replicates) == ((), ({"a": Score(1, 1)},))


def test_a_further_round_joins_those_before() -> None:
    first = Evaluation.of("s", "val", [attempt("a", 0, 1.0), attempt("b", 0, DOWN)])
    second = Evaluation.of("s", "val", [attempt("a", 1, 0.0), attempt("b", 1, 1.0)])
    both = first.plus(1, second)
    assert both.scores == {"a": Score(0.5, 0.5), "b": Score(1, 1)}
    assert both.failures == {}


def test_a_round_may_have_some_of_the_tasks_and_get_others_later() -> None:
    first = Evaluation.of("s", "val", [attempt("a", 0, 1.0), attempt("b", 0, 0.0)])
    some = first.plus(1, Evaluation.of("s", "val", [attempt("a", 1, 0.0)]))
    assert some.scores == {"a": Score(0.5, 0.5), "b": Score(0, 0)}
    more = some.plus(1, Evaluation.of("s", "val", [attempt("b", 1, 1.0)]))
    assert [dict(marks) for marks in more.replicates] == [
        {"a": Score(1, 1), "b": Score(0, 0)},
        {"a": Score(0, 0), "b": Score(1, 1)},
    ]


def test_only_what_both_have_scored_in_the_same_round_is_set_beside() -> None:
    one = Evaluation.over("x", "val", [{"a": Score(1, 1), "b": Score(1, 1)}], {})
    two = Evaluation.over("y", "val", [{"a": Score(0, 0)}, {"a": Score(1, 1)}], {})
    mine, theirs = one.beside(two)
    assert mine.scores == {"a": Score(1, 1)}
    assert theirs.scores == {"a": Score(0, 0)}
