"""Promise: what a gate foresees is what it would have said after all tasks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.events import Measured, Verdict
from skillopt.core.ports import Gate
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.evaluation.density import Density
from skillopt.evaluation.gates import Metric, NoRegression, Strict
from skillopt.evaluation.tested import Paired, Sequential

LOST = Failure("ModelError", "down")
BINARY = st.sampled_from([0.0, 1.0])
GRADED = st.floats(0, 1)
MARK = st.one_of(
    st.builds(Score, BINARY, BINARY),
    st.builds(Score, GRADED, GRADED),
    st.builds(Score, BINARY, GRADED),
)
ATTEMPT = st.one_of(MARK, MARK, MARK, st.none())
LEVEL = 0.2


@dataclass(frozen=True)
class Case:
    """All outcomes of both sides, known in advance; None: no score."""

    old: list[list[Score | None]]
    new: list[list[Score | None]]
    weight: float
    block: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n = draw(st.integers(1, 14))
    replicates = draw(st.sampled_from([1, 1, 2]))

    def rounds() -> list[list[Score | None]]:
        row = st.lists(ATTEMPT, min_size=n, max_size=n)
        return draw(st.lists(row, min_size=replicates, max_size=replicates))

    weight = draw(st.sampled_from([0.0, 0.5, 1.0, 0.3]))
    return Case(rounds(), rounds(), weight, draw(st.integers(1, 5)))


def measured(text: str, rounds: list[list[Score | None]], met: set[str] | None = None) -> Measured:
    skill = Skill.parse(text)
    names = [f"t{n}" for n in range(len(rounds[0]))]
    wanted = set(names) if met is None else met
    found = [
        {
            name: score
            for name, score in zip(names, row, strict=True)
            if score is not None and name in wanted
        }
        for row in rounds
    ]
    lost = {name: LOST for name in wanted if not any(name in each for each in found)}
    return Measured(skill, Evaluation.over(skill.digest, "val", found, lost), 0.0, "x", 0)


def foreseen(gate: Gate, case: Case) -> Verdict | None:
    """Meet the tasks block by block; the first verdict that is certain before the end."""
    incumbent = measured("old", case.old)
    whole = measured("new", case.new)
    names = [f"t{n}" for n in range(len(case.new[0]))]
    order = list(gate.order(names, whole.evaluation.skill, incumbent.evaluation))
    assert sorted(order) == sorted(names)
    for end in range(case.block, len(order), case.block):
        candidate = measured("new", case.new, set(order[:end]))
        verdict = gate.foresee(candidate, incumbent, order[end:], level=LEVEL)
        if verdict is not None:
            return verdict
    return None


def judged(gate: Gate, case: Case) -> Verdict:
    return gate.judge(measured("new", case.new), measured("old", case.old), level=LEVEL)


@given(cases(), st.sampled_from([("old", "new"), ("old",), ("new",)]), st.booleans())
def test_a_strict_rejection_foreseen_is_the_rejection_of_the_full_evaluation(
    case: Case, dense: tuple[str, ...], ties: bool
) -> None:
    """Whatever the texts "old" and "new" earn by themselves, and whether a tie is enough."""
    gate = Strict(Metric(case.weight, Density(0.2, dense)), ties=ties)
    if foreseen(gate, case) is not None:
        assert judged(gate, case).finding == "not_better"


@given(cases(), st.sampled_from([0.0, 0.1, 0.5]))
def test_a_regression_foreseen_is_one_after_the_full_evaluation(case: Case, share: float) -> None:
    gate = NoRegression(
        strict=Strict(Metric(case.weight)), must_pass=frozenset({"t1"}), max_broken=share
    )
    if foreseen(gate, case) is not None:
        assert judged(gate, case).finding == "not_better"


@given(cases())
def test_what_tested_gates_give_up_early_they_would_not_have_accepted(case: Case) -> None:
    strict = Strict(Metric(case.weight))
    gates: list[Gate] = [
        Paired(strict=strict, alpha=LEVEL),
        Paired(strict=strict, alpha=LEVEL, mid=True),
        Sequential(strict=strict, alpha=LEVEL, replicates=len(case.new)),
    ]
    for gate in gates:
        verdict = foreseen(gate, case)
        if verdict is not None:
            assert verdict.finding != "better"
            assert judged(gate, case).finding != "better"


def scores(*values: float) -> list[list[Score | None]]:
    return [[Score(value, value) for value in values]]


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_a_candidate_that_repairs_nothing_is_through_after_what_was_broken(weight: float) -> None:
    gate = Strict(Metric(weight))
    case = Case(scores(1, 1, 0, 1, 0, 1), scores(1, 1, 0, 1, 0, 1), weight, 2)
    verdict = foreseen(gate, case)
    assert verdict is not None
    assert verdict.reason == "at most 0.6667 <= 0.6667, after 2 of 6 tasks"


def test_where_a_tie_is_enough_only_a_certain_loss_is_given_up() -> None:
    gate = Strict(Metric(), ties=True)
    even = Case(scores(0, 0, 1, 1), scores(0, 0, 1, 1), 0.0, 1)
    assert foreseen(gate, even) is None
    assert judged(gate, even) == Verdict("better", "0.5000 >= 0.5000 on 4 tasks")
    worse = Case(scores(1, 1, 1), scores(0, 1, 1), 0.0, 1)
    assert foreseen(gate, worse) == Verdict(
        "not_better", "at most 0.6667 < 1.0000, after 1 of 3 tasks"
    )
    assert judged(gate, worse) == Verdict("not_better", "0.6667 < 1.0000 on 3 tasks")
    guarded = NoRegression(strict=gate, must_pass=frozenset({"t0"}), max_broken=0.5)
    swapped = Case(scores(1, 0, 1), scores(0, 1, 1), 0.0, 3)
    assert judged(gate, swapped).finding == "better"
    assert judged(guarded, swapped).finding == "not_better"


def test_a_candidate_that_may_still_win_is_not_given_up() -> None:
    case = Case(scores(0, 0, 1), scores(0, 1, 1), 0.0, 1)
    assert foreseen(Strict(Metric()), case) is None


def test_a_task_without_a_score_cannot_make_a_rejection_wrong() -> None:
    """The last task would fail to be scored, which takes the incumbent's pass out of the means."""
    old: list[list[Score | None]] = scores(0.0, 0.5, 1.0)
    new: list[list[Score | None]] = [[Score(0, 0), Score(0.6, 0.6), None]]
    gate = Strict(Metric())
    assert judged(gate, Case(old, new, 0.0, 1)).finding == "better"
    assert foreseen(gate, Case(old, new, 0.0, 1)) is None
