"""Every task under every skill: outcomes, flips, failures."""

from __future__ import annotations

from support_store import FIRST, INITIAL, REJECTED, VAL, evaluation, measured, story

from skillopt.analysis.items import INFRASTRUCTURE, ItemMatrix
from skillopt.core.events import Begun, Decision, Fact, FinalTested, Measured
from skillopt.core.facts import HumanReviewed
from skillopt.core.rollout import Evaluation, Failure, Score

BEGUN = next(event for event in story() if isinstance(event, Begun))


def decided(skill: Measured, *, accepted: bool, number: int = 1) -> HumanReviewed:
    action = "accept" if accepted else "reject"
    decision = Decision(skill, action, "because")
    return HumanReviewed(move=f"review_{number:04d}", verdict="edit", decision=decision)


def matrix(*facts: Fact) -> ItemMatrix:
    items = ItemMatrix()
    for fact in facts:
        items.add(fact)
    return items


def begun(*marks: float) -> Begun:
    return Begun(measured(INITIAL, "initial_skill", 0, *marks))


def test_a_task_is_fixed_or_regressed_by_the_first_and_the_last_skill_that_was_kept() -> None:
    table = matrix(
        begun(0.0, 1.0), decided(measured(FIRST, "step_0001", 1, 1.0, 0.0), accepted=True)
    ).table()
    assert {row.task: (row.cells, row.course, row.flips) for row in table.rows} == {
        "v1": ("01", "fixed", 1),
        "v2": ("10", "regressed", 1),
    }
    assert (table.counts["fixed"], table.counts["regressed"]) == (1, 1)
    assert [row.task for row in table.only("fixed")] == ["v1"]


def test_a_rejected_candidate_is_a_column_but_no_flip() -> None:
    rejected = decided(measured(REJECTED, "step_0001", 1, 1.0, 1.0), accepted=False)
    table = matrix(begun(0.0, 1.0), rejected).table()
    assert [(column.name, column.kept) for column in table.columns] == [
        ("initial_skill", True),
        ("step_0001", False),
    ]
    assert {row.task: (row.cells, row.course) for row in table.rows} == {
        "v1": ("01", "always wrong"),
        "v2": ("11", "always right"),
    }


def test_a_skill_that_is_kept_later_counts_from_then_on() -> None:
    skill = measured(REJECTED, "step_0001", 1, 1.0, 1.0)
    table = matrix(
        begun(0.0, 1.0), decided(skill, accepted=False), decided(skill, accepted=True, number=2)
    ).table()
    assert [column.kept for column in table.columns] == [True, True]
    assert {row.task: row.course for row in table.rows} == {"v1": "fixed", "v2": "always right"}


def test_a_wrong_item_that_the_latest_skill_did_not_try_is_not_called_always_wrong() -> None:
    first = begun(0.0, 0.0)
    later = decided(measured(FIRST, "step_0001", 1, 0.0), accepted=True)
    table = matrix(first, later).table()
    assert {row.task: row.course for row in table.rows} == {
        "v1": "always wrong",
        "v2": "not tried again",
    }


def test_a_failure_of_infrastructure_is_neither_wrong_nor_a_flip() -> None:
    table = matrix(
        begun(1.0), decided(measured(FIRST, "step_0001", 1, 1.0, 1.0), accepted=True)
    ).table()
    rows = {row.task: row for row in table.rows}
    assert (rows["v2"].cells, rows["v2"].failed, rows["v2"].course) == ("x1", True, "always right")
    assert table.counts[INFRASTRUCTURE] == 1
    assert [row.task for row in table.only(INFRASTRUCTURE)] == ["v2"]


def test_failures_of_the_skill_itself_and_parts_of_marks_have_signs_of_their_own() -> None:
    scores = {"v1": Score(0.0, 0.0), "v2": Score(0.5, 0.5)}
    own = Evaluation(
        FIRST.digest, "val", scores, own_failures={"v1": Failure("HarnessError", "broke")}
    )
    fact = decided(Measured(FIRST, own, 0.25, "step_0001", 1), accepted=True)
    table = matrix(begun(1.0, 1.0), fact).table()
    assert {row.task: row.cells for row in table.rows} == {"v1": "1!", "v2": "1~"}


def test_the_same_task_of_two_splits_makes_two_rows_and_a_later_score_replaces_a_failure() -> None:
    tested = evaluation(INITIAL, "test", VAL, 1.0, 0.0)
    final = FinalTested(move="final_test", tasks="", initial=tested, best=tested, last=tested)
    again = decided(measured(INITIAL, "initial_skill", 0, 0.0, 1.0), accepted=False)
    table = matrix(begun(0.0), final, again).table()
    assert {(row.split, row.task): row.cells for row in table.rows} == {
        ("val", "v1"): "0",
        ("val", "v2"): "1",
        ("test", "v1"): "1",
        ("test", "v2"): "0",
    }


def test_taking_in_fact_by_fact_is_the_same_as_all_at_once() -> None:
    facts = [event for event in story() if isinstance(event, Fact)]
    grown = ItemMatrix()
    for fact in facts:
        grown.add(fact)
        grown.table()
    assert grown.table() == matrix(*facts).table()
    assert BEGUN in facts
