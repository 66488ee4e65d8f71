"""What a run may claim."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from skillopt.analysis.report import claim, figures
from skillopt.core.events import Begun, FinalTested, Measured
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Split

OLD, NEW = Skill.parse("old"), Skill.parse("new")


def evaluation(skill: Skill, split: Split, marks: str) -> Evaluation:
    """One letter per item: 1 right, 0 wrong, x failed."""
    scores = {str(n): Score(int(mark), int(mark)) for n, mark in enumerate(marks) if mark != "x"}
    failures = {str(n): Failure("ModelError", "") for n, mark in enumerate(marks) if mark == "x"}
    return Evaluation(skill.digest, split, scores, failures)


def after_exam(before: str, after: str) -> State:
    first = Measured(OLD, evaluation(OLD, "val", "01"), 0.5, "initial_skill", 0)
    old, new = evaluation(OLD, "test", before), evaluation(NEW, "test", after)
    final_test = FinalTested(move="final_test", tasks="", initial=old, best=new, last=new)
    return State.after(Begun(first)).apply(final_test)


@pytest.mark.parametrize(
    ("before", "after", "words", "conclusive"),
    [
        (
            "0" * 20,
            "1" * 15 + "0" * 5,
            "conclusive, better: hard score +0.750 [+0.47, +0.90] on 20",
            True,
        ),
        (
            "1" * 15 + "0" * 5,
            "0" * 20,
            "conclusive, worse: hard score -0.750 [-0.90, -0.47] on 20",
            True,
        ),
        (
            "0" * 20,
            "1" * 3 + "0" * 17,
            "not conclusive (no change is also possible): hard score +0.150",
            False,
        ),
        (
            "0" * 5,
            "1" * 5,
            "not conclusive (fewer than 6 items changed, which may be luck): hard score +1.000",
            False,
        ),
        ("01" * 9, "01" * 9, "no difference: hard score +0.000 [-0.10, +0.10] on 18", False),
        ("", "", "no difference: hard score +0.000 [-1.00, +1.00] on 0", False),
    ],
)
def test_a_result_is_called_conclusive_only_when_it_is(
    before: str, after: str, words: str, conclusive: bool
) -> None:
    state = after_exam(before, after)
    assert claim(state).words().startswith(words)
    told = figures(state)["claim"]
    assert isinstance(told, dict)
    assert told["conclusive"] is conclusive


def graded_exam(soft_weight: float, before: Score, after: Score, n: int = 40) -> State:
    """An exam in which every item went from one score to another."""
    first = Measured(OLD, evaluation(OLD, "val", "01"), 0.5, "initial_skill", 0)
    old, new = (
        Evaluation(skill.digest, "test", {str(number): score for number in range(n)})
        for skill, score in ((OLD, before), (NEW, after))
    )
    final_test = FinalTested(move="final_test", tasks="", initial=old, best=new, last=new)
    return State.after(Begun(first, soft_weight=soft_weight)).apply(final_test)


@pytest.mark.parametrize(
    ("weight", "name", "gain", "other"),
    [(1.0, "soft", 0.7, ["hard"]), (0.5, "mixed 0.5", 0.35, ["hard", "soft"])],
)
def test_the_claim_speaks_in_the_metric_of_the_run_and_shows_the_others(
    weight: float, name: str, gain: float, other: list[str]
) -> None:
    state = graded_exam(weight, Score(0, 0.2), Score(0, 0.9))
    found = claim(state)
    assert (found.metric, found.changed, found.conclusive) == (name, 40, True)
    assert found.gain.mean == pytest.approx(gain)
    assert found.words().startswith(f"conclusive, better: {name} score +{gain:.3f} [+")
    told = figures(state)
    claimed = told["claim"]
    assert isinstance(claimed, dict)
    assert (claimed["metric"], claimed["lift"]) == (name, pytest.approx(gain))
    others = cast("list[dict[str, object]]", claimed["other_metrics"])
    assert [each["metric"] for each in others] == other
    assert others[0] == {
        "metric": "hard",
        "lift": 0.0,
        "lift_interval_95": others[0]["lift_interval_95"],
        "n_changed": 0,
    }
    assert told["test_score"] == pytest.approx(weight * 0.9)
    assert told["baseline_test_score"] == pytest.approx(weight * 0.2)
    assert told["test_lift_interval_95"] == claimed["lift_interval_95"]


def test_val_scores_are_shown_together_with_the_bias_of_their_selection() -> None:
    state = graded_exam(0.0, Score(0, 0), Score(1, 1))
    told = figures(state)["selection"]
    assert isinstance(told, dict)
    assert told["note"] == (
        "the best skill was selected by these scores, so its own is biased upwards; "
        "test scores are not"
    )
    assert "biased upwards" in claim(replace(state, final_test=None)).words()


def test_a_run_by_hard_scores_claims_nothing_by_soft_ones() -> None:
    found = claim(graded_exam(0.0, Score(0, 0.2), Score(0, 0.9)))
    assert found.words().startswith("no difference: hard score +0.000")


def test_twenty_small_gains_of_twenty_are_conclusive() -> None:
    found = claim(graded_exam(1.0, Score(0, 0.5), Score(0, 0.58), n=20))
    assert found.words().startswith("conclusive, better: soft score +0.080 [+0.06, +0.08]")


def test_every_evaluation_tells_metric_score_interval_and_number() -> None:
    told = figures(graded_exam(1.0, Score(0, 0.2), Score(0, 0.9)))["test"]
    assert isinstance(told, dict)
    best = cast("dict[str, object]", told["best"])
    assert (best["metric"], best["score"], best["n_scored"]) == ("soft", pytest.approx(0.9), 40)
    assert (best["hard"], best["soft"]) == (0.0, pytest.approx(0.9))
    assert {"score_interval_95", "hard_interval_95", "soft_interval_95"} <= best.keys()


def test_items_that_failed_are_left_out_of_the_comparison_and_told() -> None:
    found = claim(after_exam("x00000000", "1111111x0"))
    assert (found.n, found.changed, found.failures) == (7, 6, 2)
    assert found.words().endswith("on 7 test items, 6 of them changed; 2 attempts failed")


def test_without_an_exam_nothing_is_claimed() -> None:
    first = Measured(OLD, evaluation(OLD, "val", "0" * 9), 0.0, "initial_skill", 0)
    best = Measured(NEW, evaluation(NEW, "val", "1" * 9), 1.0, "step_0001", 1)
    state = State(initial=first, current=best, best=best, epoch_start=OLD)
    assert claim(state).words().startswith("not tested (val selected the skill")
    told = figures(state)["claim"]
    assert isinstance(told, dict)
    assert told["conclusive"] is False
