"""The plan of a run is computed from tasks, settings and seed, and is compared whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import Sums

from skillopt.core.events import Begun, Measured
from skillopt.core.memory import Memory
from skillopt.core.rollout import CHANGED, Evaluation
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Split, Task
from skillopt.engine.plan import (
    EpochEnd,
    FinalTest,
    MetaReflection,
    Plan,
    PlanSettings,
    Pruning,
    Step,
)

TRAIN, TEST = Sums(size=6).tasks("train"), Sums(size=2).tasks("test")
SHAPE = PlanSettings(
    epochs=3,
    batch=2,
    accumulation=2,
    sample=3,
    last_sample=2,
    searches=True,
    useful=CHANGED,
    meta_reflect=True,
    prune_every=2,
    prune_sample=2,
    forgets=lambda epoch: epoch == 2,
    patience=5,
    repeat_solved=False,
)


def budget(step: int, total: int) -> int:
    return 100 * step + total


def tasks(numbers: str, split: Split = "train") -> tuple[Task, ...]:
    known = {task.id: task for task in (*TRAIN, *TEST)}
    return tuple(known[f"{split}-{number}"] for number in numbers.split())


def test_a_run_begun_with_an_earlier_version_of_ours_goes_on_with_the_same_plan() -> None:
    assert Plan.build(TRAIN, SHAPE, budget, TEST) == Plan(
        (
            Step(1, 1, 1, (tasks("3 4"), tasks("0 2")), 106),
            Step(2, 1, 2, (tasks("5 1"),), 206),
            MetaReflection(1, 2, 206),
            EpochEnd(1, 2, (), last=False, useful=CHANGED),
            Step(3, 2, 1, (tasks("3 0"), tasks("5 1")), 306),
            Step(4, 2, 2, (tasks("4 2"),), 406),
            MetaReflection(2, 4, 406),
            Pruning(2, 4, tasks("3 4")),
            EpochEnd(
                2,
                4,
                tasks("3 2 5"),
                last=False,
                forgets=True,
                spare=tasks("1 0 4"),
                useful=CHANGED,
            ),
            Step(5, 3, 1, (tasks("0 4"), tasks("2 5")), 506),
            Step(6, 3, 2, (tasks("1 3"),), 606),
            MetaReflection(3, 6, 606),
            EpochEnd(3, 6, tasks("3 4"), last=True, spare=tasks("2 0 1 5"), useful=CHANGED),
            FinalTest(tasks("200 201", "test")),
        ),
        patience=5,
        repeat_solved=False,
    )


def test_one_of_a_series_looks_back_at_its_first_epoch_and_at_its_last_as_at_any_other() -> None:
    plan = Plan.build(TRAIN, replace(SHAPE, continues=True), budget, None)
    ends = [move for move in plan.moves if isinstance(move, EpochEnd)]
    assert [(len(end.tasks), len(end.spare), end.last) for end in ends] == [(3, 3, False)] * 3
    assert not isinstance(plan.moves[-1], FinalTest)


@pytest.mark.parametrize("epochs", [1, 2])
def test_more_epochs_leave_the_steps_of_earlier_ones_as_they_are(epochs: int) -> None:
    def steps(shape: PlanSettings) -> list[Step]:
        plan = Plan.build(TRAIN, shape, lambda step, total: step, TEST)
        return [move for move in plan.moves if isinstance(move, Step)]

    assert steps(SHAPE)[: 2 * epochs] == steps(replace(SHAPE, epochs=epochs))
    assert steps(replace(SHAPE, seed=7)) != steps(SHAPE)


def test_only_moves_that_may_bring_a_candidate_before_a_gate_take_a_part_of_alpha() -> None:
    plan = Plan.build(TRAIN, SHAPE, budget, TEST)
    steps = [
        move
        for epoch, numbers in ((1, (1, 2)), (2, (3, 4)), (3, (5, 6)))
        for move in (*(f"step_{n:04d}" for n in numbers), f"meta_reflect_epoch_{epoch:02d}")
    ]
    ends = ["epoch_02", "epoch_03"]
    assert plan.gated(steps=True, guidance=False) == steps
    assert plan.gated(steps=False, guidance=True) == ends
    assert sorted(plan.gated(steps=True, guidance=True)) == sorted([*steps, *ends])
    assert plan.gated(steps=False, guidance=False) == []


def test_a_step_follows_unless_something_before_it_asks_a_model() -> None:
    """From the second epoch on, the end of an epoch looks back at it."""
    plan = Plan.build(TRAIN, replace(SHAPE, meta_reflect=False), budget, TEST)
    found = {move.id: plan.step_after(move) for move in plan.moves}
    assert {move: step and step.id for move, step in found.items()} == {
        "step_0001": "step_0002",
        "step_0002": "step_0003",
        "epoch_01": "step_0003",
        "step_0003": "step_0004",
        "step_0004": None,
        "prune_epoch_02": None,
        "epoch_02": "step_0005",
        "step_0005": "step_0006",
        "step_0006": None,
        "epoch_03": None,
        "final_test": None,
    }
    reflecting = Plan.build(TRAIN, replace(SHAPE, meta_reflect=True), budget, TEST)
    assert reflecting.step_after(reflecting.moves[1]) is None


def test_after_steps_in_a_row_that_changed_nothing_only_the_final_test_is_left() -> None:
    plan = Plan.build(TRAIN, replace(SHAPE, repeat_solved=True), budget, TEST)
    skill = Skill.parse("a\n")
    first = Measured(skill, Evaluation(skill.digest, "val", {}), 0.0, "initial_skill", 0)

    def after(steps: int, refused: int = 0) -> State:
        memory = Memory(fruitless=steps, refused=refused)
        return replace(State.after(Begun(first)), memory=memory)

    assert plan.left(after(4)) == list(plan.moves)
    for steps in (5, 6):
        assert plan.left(after(steps)) == [FinalTest(tuple(TEST))]
    assert replace(plan, patience=0).left(after(6)) == list(plan.moves)
    found = [plan.out_of_patience(after(3 + more, refused=more)) for more in (0, 3, 4, 5)]
    assert found == [False, False, True, True]


def test_a_step_whose_candidate_was_refused_uses_up_half_as_much_patience() -> None:
    memory = Memory()
    vain: list[float] = []
    for refused in (True, True, False, True):
        memory = memory.after_step(accepted=False, practice={}, refused=refused)
        vain.append(memory.vain)
    assert vain == [0.5, 1.0, 2.0, 2.5]
    assert memory.after_step(accepted=True, practice={}).vain == 0
    assert memory.afresh().vain == 0
