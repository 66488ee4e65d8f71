"""What a run may claim."""

from __future__ import annotations

import pytest

from skillopt.core.events import Begun, Examined, Measured
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Split
from skillopt.evaluation.report import claim, figures

OLD, NEW = Skill.parse("old"), Skill.parse("new")


def evaluation(skill: Skill, split: Split, marks: str) -> Evaluation:
    """One letter per item: 1 right, 0 wrong, x failed."""
    scores = {str(n): Score(int(mark), int(mark)) for n, mark in enumerate(marks) if mark != "x"}
    failures = {str(n): Failure("ModelError", "") for n, mark in enumerate(marks) if mark == "x"}
    return Evaluation(skill.digest, split, scores, failures)


def after_exam(before: str, after: str) -> State:
    first = Measured(OLD, evaluation(OLD, "val", "01"), 0.5, "initial_skill", 0)
    old, new = evaluation(OLD, "test", before), evaluation(NEW, "test", after)
    exam = Examined(move="exam", tasks="", initial=old, best=new, last=new)
    return State.after(Begun(first)).apply(exam)


@pytest.mark.parametrize(
    ("before", "after", "words", "conclusive"),
    [
        ("0" * 20, "1" * 15 + "0" * 5, "conclusive, better: +0.750 [+0.47, +0.90] on 20", True),
        ("1" * 15 + "0" * 5, "0" * 20, "conclusive, worse: -0.750 [-0.90, -0.47] on 20", True),
        ("0" * 20, "1" * 3 + "0" * 17, "not conclusive (no change is possible too): +0.150", False),
        ("0" * 5, "1" * 5, "not conclusive (no change is possible too): +1.000", False),
        ("01" * 9, "01" * 9, "no difference: +0.000 [-0.10, +0.10] on 18", False),
        ("", "", "no difference: +0.000 [-1.00, +1.00] on 0", False),
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


def test_items_that_failed_are_left_out_of_the_comparison_and_told() -> None:
    found = claim(after_exam("x00000000", "1111111x0"))
    assert (found.n, found.changed, found.failures) == (7, 6, 2)
    assert found.words().endswith("on 7 test items, 6 of them changed; 2 attempts failed")


def test_without_an_exam_nothing_is_claimed() -> None:
    first = Measured(OLD, evaluation(OLD, "val", "0" * 9), 0.0, "initial_skill", 0)
    best = Measured(NEW, evaluation(NEW, "val", "1" * 9), 1.0, "step_0001", 1)
    state = State(initial=first, current=best, best=best, epoch_start=OLD)
    assert claim(state).words().startswith("not tested (val chose the skill")
    told = figures(state)["claim"]
    assert isinstance(told, dict)
    assert told["conclusive"] is False
