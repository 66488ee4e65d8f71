from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from skillopt.core.rollout import (
    Evaluation,
    Failure,
    Pair,
    Rollout,
    RolloutSpec,
    Score,
    Trajectory,
    failure_of,
)
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.errors import ModelError

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
    assert mine == Evaluation("x", "val", {"a": Score(1, 1)})
    assert theirs == Evaluation("y", "val", {"a": Score(0, 0)})


def test_an_evaluation_in_another_order_is_the_same_in_every_part() -> None:
    rounds = ({"a": Score(1, 0.5), "b": Score(0, 0.5)}, {"b": Score(1, 1), "c": Score(0, 0)})
    found = replace(
        Evaluation.over("s", "val", rounds, {"d": DOWN, "e": DOWN}),
        own_failures={"b": DOWN, "c": DOWN},
    )
    order = ["e", "d", "c", "b", "a", "unknown"]
    other = found.ordered(order)
    assert other == found
    parts = (other.scores, other.failures, *other.rounds, other.own_failures)
    assert [list(part) for part in parts] == [
        ["c", "b", "a"],
        ["e", "d"],
        ["b", "a"],
        ["c", "b"],
        ["c", "b"],
    ]
    some = found.ordered(["c", "d"])
    assert some == Evaluation(
        "s", "val", {"c": Score(0, 0)}, {"d": DOWN}, ({}, {"c": Score(0, 0)}), {"c": DOWN}
    )


def test_further_tasks_join_round_by_round_with_what_failed() -> None:
    one = Evaluation.over("s", "val", [{"a": Score(1, 1)}, {"a": Score(0, 0)}], {"b": DOWN})
    two = replace(Evaluation("s", "val", {"c": Score(0, 0)}, {"d": DOWN}), own_failures={"c": DOWN})
    rounds = ({"a": Score(1, 1), "c": Score(0, 0)}, {"a": Score(0, 0)})
    assert one.joined(two) == Evaluation(
        "s",
        "val",
        {"a": Score(0.5, 0.5), "c": Score(0, 0)},
        {"b": DOWN, "d": DOWN},
        rounds,
        {"c": DOWN},
    )


def test_what_is_granted_has_full_marks_and_the_rest_stays() -> None:
    found = Evaluation("s", "train", {"a": Score(0, 0.5)}, {"b": DOWN})
    assert found.granting(["b", "c"]) == Evaluation(
        "s", "train", {"a": Score(0, 0.5), "b": Score(1, 1), "c": Score(1, 1)}
    )


def test_hard_and_soft_scores_are_averaged_apart_and_nothing_scored_is_0() -> None:
    found = Evaluation("s", "val", {"a": Score(1, 0.5), "b": Score(0, 0.25)})
    assert (found.hard, found.soft, found.passed) == (0.5, 0.375, 0.5)
    nothing = Evaluation("s", "val", {}, {"a": DOWN})
    assert (nothing.hard, nothing.soft, nothing.passed, nothing.n) == (0, 0, 0, 0)
    rounds = [{"a": Score(1, 0.5)}, {"a": Score(0, 0.25)}]
    assert Evaluation.over("s", "val", rounds, {}).scores == {"a": Score(0.5, 0.375)}


SPEC = RolloutSpec(
    task=Task("a", "sum", {"q": "1"}),
    skill=Skill.parse("x"),
    digest="d",
    replicate=1,
    environment="e",
    harness="h",
)


@pytest.mark.parametrize(
    "changed",
    [
        {"task": Task("a", "sum", {"q": "2"})},
        {"digest": "other"},
        {"replicate": 2},
        {"environment": "other"},
        {"harness": "other"},
    ],
)
def test_an_attempt_is_another_one_if_anything_that_decides_it_is(changed: dict[str, Any]) -> None:
    assert replace(SPEC, **changed).key != SPEC.key
    assert replace(SPEC, skill=Skill.parse("y")).key == SPEC.key  # its digest says which it is


def test_a_rollout_says_of_which_attempt_it_is() -> None:
    done = Trajectory((), "1")
    assert SPEC.rollout(DOWN) == Rollout(task="a", kind="sum", skill="d", outcome=DOWN, replicate=1)
    made = SPEC.rollout(Score(1, 1), done, {"right": "1"})
    assert (made.trajectory, made.details) == (done, {"right": "1"})


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (0.0, 1.0, "improved"),
        (1.0, 0.5, "regressed"),
        (0.5, 0.0, "persistent_fail"),
        (1.0, 1.0, "stable_success"),
        (DOWN, 1.0, None),
        (1.0, DOWN, None),
    ],
)
def test_what_became_of_a_task_is_told_by_whether_it_passed_before_and_after(
    before: Failure | float, after: Failure | float, change: str | None
) -> None:
    assert Pair(attempt("a", 0, before), attempt("a", 0, after)).change == change


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_score_outside_of_0_to_1_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match=f"^a hard score lies between 0 and 1, not {value}$"):
        Score(value, 0)
    with pytest.raises(ValueError, match=f"^a soft score lies between 0 and 1, not {value}$"):
        Score(0, value)


def test_an_evaluation_of_one_round_has_its_failures_and_no_rounds() -> None:
    marks = {"a": Score(1, 1)}
    once = Evaluation.over("s", "val", [marks], {"a": DOWN, "b": DOWN})
    assert once == Evaluation("s", "val", marks, {"b": DOWN})
    assert Evaluation.over("s", "val", [], {"b": DOWN}) == Evaluation("s", "val", {}, {"b": DOWN})
    assert [once.scored(task, number) for task, number in (("a", 0), ("b", 0), ("a", 1))] == [
        True, False, False
    ]  # fmt: skip


def test_further_attempts_are_a_round_of_their_own_or_part_of_one() -> None:
    one = Evaluation("s", "val", {"a": Score(1, 1)}, {"b": DOWN})
    more = Evaluation("s", "val", {"b": Score(0, 0)}, {"c": DOWN}, own_failures={"b": DOWN})
    both = {"a": Score(1, 1), "b": Score(0, 0)}
    joined = Evaluation("s", "val", both, {"c": DOWN}, own_failures={"b": DOWN})
    assert one.plus(0, more) == one.joined(more) == joined
    apart = one.plus(1, more)
    assert apart.rounds == ({"a": Score(1, 1)}, {"b": Score(0, 0)})
    assert (apart.scores, apart.failures, apart.own_failures) == (both, {"c": DOWN}, {"b": DOWN})
    assert list(joined.ordered(["b", "a"]).scores) == ["b", "a"]
    assert one.granting(["b"]) == Evaluation("s", "val", {"a": Score(1, 1), "b": Score(1, 1)})


def test_a_failure_tells_the_kind_of_error_and_its_message() -> None:
    assert failure_of(ModelError("down")) == DOWN
