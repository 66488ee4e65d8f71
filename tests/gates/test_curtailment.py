"""Promise: what a gate foresees is what it would have said after all tasks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.skill import Skill
from skillopt.gates.compared import Density, Metric, NoRegression, Strict
from skillopt.gates.tested import Paired, Sequential

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


def foreseen(gate: CompleteGate, case: Case) -> GateVerdict | None:
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


def judged(gate: CompleteGate, case: Case) -> GateVerdict:
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
    gate = NoRegression(metric=Metric(case.weight), must_pass=frozenset({"t1"}), max_broken=share)
    if foreseen(gate, case) is not None:
        assert judged(gate, case).finding == "not_better"


@given(cases())
def test_what_tested_gates_give_up_early_they_would_not_have_accepted(case: Case) -> None:
    strict = Strict(Metric(case.weight))
    gates: list[CompleteGate] = [
        Paired(strict.metric, alpha=LEVEL),
        Paired(strict.metric, alpha=LEVEL, mid=True),
        Sequential(strict.metric, alpha=LEVEL, replicates=len(case.new)),
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
    assert judged(gate, even) == GateVerdict("better", "0.5000 >= 0.5000 on 4 tasks")
    worse = Case(scores(1, 1, 1), scores(0, 1, 1), 0.0, 1)
    assert foreseen(gate, worse) == GateVerdict(
        "not_better", "at most 0.6667 < 1.0000, after 1 of 3 tasks"
    )
    assert judged(gate, worse) == GateVerdict("not_better", "0.6667 < 1.0000 on 3 tasks")
    guarded = NoRegression(gate.metric, ties=gate.ties, must_pass=frozenset({"t0"}), max_broken=0.5)
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


def comparable(old: Score | None, new: Score | None) -> bool:
    return old is not None and new is not None


OUTCOMES = (None, Score(0, 0), Score(0.5, 0.5), Score(1, 1))


@pytest.mark.parametrize("dense", [("new",), ("old",), ("old", "new"), ()])
@pytest.mark.parametrize("ties", [False, True])
def test_a_strict_gate_gives_up_exactly_what_no_outcome_of_the_tasks_left_could_save(
    dense: tuple[str, ...], ties: bool
) -> None:
    """All marks of both sides on three tasks, after one and after two; texts may earn a bonus."""
    gate = Strict(Metric(0.0, Density(0.3, dense)), ties=ties)
    names = ["t0", "t1", "t2"]
    found: set[bool] = set()
    for old in itertools.product(OUTCOMES, repeat=3):
        incumbent = measured("old", [list(old)])
        for met in (1, 2):
            for new in itertools.product(OUTCOMES, repeat=met):
                start = [*new, *[None] * (3 - met)]
                candidate = measured("new", [start], set(names[:met]))
                saved = any(
                    gate.judge(measured("new", [[*new, *rest]]), incumbent).finding == "better"
                    for rest in itertools.product(OUTCOMES, repeat=3 - met)
                )
                verdict = gate.foresee(candidate, incumbent, names[met:])
                # Where a tie is enough, nothing is given up before there is something to compare.
                if verdict is not None or not ties or any(map(comparable, old, new)):
                    assert (verdict is None) is saved
                found.add(saved)
    assert found == {True, False}


def test_a_lost_attempt_leaves_the_incumbents_other_one_to_be_beaten() -> None:
    """The most that can be gained on a task counts against the worst attempt of the incumbent."""
    gate = Strict(Metric())
    old = measured("old", [[Score(1, 1)], [Score(0, 0)]])
    assert gate.room("t0", old.evaluation) == 1
    nothing = measured("new", [[None], [None]], set())
    assert gate.foresee(nothing, old, ["t0"]) is None
    lost = measured("new", [[None], [Score(1, 1)]])
    assert gate.judge(lost, old).finding == "better"


def test_what_the_incumbent_has_no_score_for_adds_no_bonus() -> None:
    gate = Strict(Metric(0.0, Density(0.2, ("new",))))
    old = measured("old", [[Score(0.9, 0.9), None]])
    new = measured("new", [[Score(0.6, 0.6), None]], {"t0"})
    assert gate.foresee(new, old, ["t1"]) is not None


@pytest.mark.parametrize(
    ("must_pass", "share", "told"),
    [
        ({"t0"}, 0.5, "broke t0, after 1 of 4 tasks"),
        (set[str](), 0.0, "broke t0, after 1 of 4 tasks"),
        ({"t1"}, 0.25, None),
    ],
)
def test_one_broken_rule_is_enough_to_give_up(
    must_pass: set[str], share: float, told: str | None
) -> None:
    """Either a task that must pass, or too many; the mean could still become better."""
    gate = NoRegression(metric=Metric(), must_pass=frozenset(must_pass), max_broken=share)
    old = measured("old", scores(1, 0, 0, 0))
    new = measured("new", scores(0, 1, 1, 1), {"t0"})
    verdict = gate.foresee(new, old, ["t1", "t2", "t3"])
    assert verdict == (None if told is None else GateVerdict("not_better", told))
