"""Which candidate meets the gate, and which skill a step sets out from: pure rules."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.engine.halving import HalveByGain, ParetoParents
from skillopt.gates.compared import Metric

MARKS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40)
HALVING = HalveByGain(marks=Metric().marks, screen=8, block=4)


def evaluation(marks: list[float], text: str = "a") -> Evaluation:
    scores = {f"t{n}": Score(each, each) for n, each in enumerate(marks)}
    return Evaluation(Skill.parse(text).digest, "val", scores)


def measured(marks: list[float], text: str) -> Measured:
    found = evaluation(marks, text)
    return Measured(Skill.parse(text), found, found.hard, text, 0)


@given(MARKS, st.integers(0, 12))
def test_screening_starts_where_something_can_be_gained_and_stays_within_its_bound(
    marks: list[float], screen: int
) -> None:
    known = evaluation(marks)
    blocks = HalveByGain(marks=Metric().marks, screen=screen, block=4).screening(known)
    if all(mark == 1 for mark in marks):
        assert blocks == []
        return
    tasks = [task for block in blocks for task in block]
    assert len(tasks) == len(set(tasks))
    assert set(tasks) <= set(known.scores)
    assert len(tasks) <= max(1, screen) if screen else len(tasks) == len(marks)
    assert all(known.scores[task].hard < 1 for task in blocks[0])
    assert all(known.scores[task].hard == 1 for block in blocks[1:] for task in block)


def test_with_a_soft_metric_a_task_that_passed_with_reserve_can_still_be_gained_on() -> None:
    known = Evaluation("a", "train", {"t": Score(1, 0.5)})
    assert HalveByGain(marks=Metric().marks, screen=8, block=4).screening(known) == []
    assert HalveByGain(marks=Metric(1.0).marks, screen=8, block=4).screening(known) == [["t"]]


@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 99))
def test_blocks_hold_every_task_once_in_an_order_of_the_step(
    tasks: int, block: int, step: int
) -> None:
    names = [f"t{n}" for n in range(tasks)]
    blocks = HalveByGain(marks=Metric().marks, screen=0, block=block).blocks(names, step)
    assert sorted(task for some in blocks for task in some) == sorted(names)
    assert all(len(some) == block for some in blocks[:-1])
    assert blocks == HalveByGain(marks=Metric().marks, screen=0, block=block).blocks(names, step)


def test_another_step_meets_the_tasks_in_another_order() -> None:
    names = [f"t{n}" for n in range(30)]
    assert HALVING.blocks(names, 1) != HALVING.blocks(names, 2)


GAINS = st.dictionaries(st.text("abcdefgh", min_size=1), st.floats(-1, 1), min_size=1, max_size=9)


@given(GAINS)
def test_a_heat_on_validation_tasks_keeps_the_better_half(gains: dict[str, float]) -> None:
    kept = HALVING.halved(gains)
    assert len(kept) == (len(gains) + 1) // 2
    lost = [gain for name, gain in gains.items() if name not in kept]
    assert all(gains[name] >= gain for name in kept for gain in lost)


@given(GAINS)
def test_screening_keeps_nobody_who_gains_nothing(gains: dict[str, float]) -> None:
    kept = HALVING.screened(gains)
    assert all(gains[name] > 0 for name in kept)
    gainers = sum(gain > 1e-12 for gain in gains.values())
    assert len(kept) == min(gainers, max(2, (len(gains) + 1) // 2))


@given(st.integers(2, 9), st.integers(1, 12), st.integers(0, 12), st.integers(1, 9))
def test_a_step_takes_the_most_attempts_where_everybody_gains(
    candidates: int, tasks: int, screen: int, block: int
) -> None:
    halving = HalveByGain(marks=Metric().marks, screen=screen, block=block)
    screening = halving.screening(evaluation([0, 1] * tasks))
    left = halving.screened({f"c{n}": 1.0 for n in range(candidates)})
    val, compared = [f"v{n}" for n in range(3 * block)], 0
    for some in halving.blocks(val, 1):
        if len(left) > 1:
            compared += len(left) * len(some)
            left = halving.halved(dict.fromkeys(left, 1.0))
    most = halving.most_attempts(candidates, 2 * tasks, len(val))
    assert candidates * sum(map(len, screening)) <= most[0]
    assert compared == most[1]


def test_the_most_attempts_of_a_step_are_known_before_it() -> None:
    assert HALVING.most_attempts(candidates=6, tasks=40, val=30) == (6 * 8, (3 + 2) * 4)
    assert HALVING.most_attempts(candidates=6, tasks=5, val=3) == (6 * 5, (3 + 2) * 3)
    every = HalveByGain(marks=Metric().marks, screen=0, block=4)
    assert every.most_attempts(candidates=2, tasks=40, val=30) == (2 * 40, 2 * 4)


def test_of_equals_the_first_goes_on() -> None:
    assert HALVING.halved({"bundle": 0.5, "without 2": 0.5}) == ["bundle"]


def drawn(pool: list[Measured], times: int = 300) -> Counter[str]:
    return Counter(ParetoParents(marks=Metric().marks)(pool, step).origin for step in range(times))


def test_a_parent_is_the_best_on_some_task_and_drawn_by_how_many() -> None:
    pool = [
        measured([0, 0, 0, 0], "covered"),
        measured([1, 0, 0, 0], "specialist"),
        measured([0, 1, 1, 1], "generalist"),
    ]
    found = drawn(pool)
    assert set(found) == {"specialist", "generalist"}
    assert found["generalist"] > 2 * found["specialist"]


def test_a_skill_that_others_match_everywhere_is_no_parent() -> None:
    pool = [measured([1, 0], "older"), measured([1, 1], "newer")]
    assert set(drawn(pool)) == {"newer"}


def test_of_two_that_are_alike_one_stays() -> None:
    assert len(drawn([measured([1, 0], "one"), measured([1, 0], "two")])) == 1


def test_alone_the_current_skill_is_the_parent_whatever_it_scored() -> None:
    assert set(drawn([measured([], "only")], 5)) == {"only"}


@given(st.lists(MARKS.map(lambda marks: (marks * 5)[:5]), min_size=1, max_size=5), st.integers(0))
def test_the_draw_depends_on_pool_and_step_alone(marks: list[list[float]], step: int) -> None:
    pool = [measured(each, f"s{n}") for n, each in enumerate(marks)]
    pareto = ParetoParents(marks=Metric().marks, seed=3)
    parent = pareto(pool, step)
    assert parent == pareto(list(pool), step)
    best = [max(each) for each in zip(*marks, strict=True)]
    assert any(
        score.hard == top
        for score, top in zip(parent.evaluation.scores.values(), best, strict=True)
    )
