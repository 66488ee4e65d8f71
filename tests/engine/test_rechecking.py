"""Steps attempt what is not solved, and look again at what an earlier skill solved."""

from __future__ import annotations

from dataclasses import replace

from skillopt.core.events import Begun, Measured
from skillopt.core.memory import Memory
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.task import Task
from skillopt.engine.plan import RECHECKED, Plan, PlanSettings, Step

TASKS = [Task(f"t{number:02}", "sum", {"q": number}) for number in range(50)]
SKILL = Skill.parse("You add numbers.\n")
FAILS = "t07"
PRACTICE = {task.id: task.id != FAILS for task in TASKS}


def due(memory: Memory, *, repeat_solved: bool = False) -> set[str]:
    """The tasks of the second step."""
    shape = PlanSettings(epochs=2, batch=100, repeat_solved=repeat_solved)
    plan = Plan.build(TASKS, shape, lambda _step, _total: None, None)
    measured = Measured(SKILL, Evaluation.of(SKILL.digest, "val", []), 0.0, "initial_skill", 0)
    state = replace(State.after(Begun(measured, {}, 0, 0.0)), memory=memory)
    second = [move for move in plan.moves if isinstance(move, Step)][1]
    return {task.id for batch in plan.due(second, state).batches for task in batch}


def test_after_a_change_unsolved_tasks_and_some_that_an_earlier_skill_solved_are_attempted() -> (
    None
):
    found = due(Memory().after_step(accepted=True, practice=PRACTICE))
    assert FAILS in found
    assert len(found) == 1 + RECHECKED


def test_each_time_others_of_them_are_attempted() -> None:
    memory = Memory().after_step(accepted=True, practice=PRACTICE)
    first = due(memory)
    memory = memory.after_step(accepted=False, practice={task: task != FAILS for task in first})
    assert first & due(memory) == {FAILS}


def test_tasks_that_the_current_skill_solved_are_not_attempted_again() -> None:
    memory = Memory().after_step(accepted=True, practice=PRACTICE)
    memory = memory.after_step(accepted=False, practice=PRACTICE)
    assert due(memory) == {FAILS}


def test_a_skill_that_nothing_has_changed_is_not_doubted() -> None:
    assert due(Memory().after_step(accepted=False, practice=PRACTICE)) == {FAILS}


def test_where_all_is_solved_some_of_it_is_looked_at_again_after_a_change() -> None:
    solved = dict.fromkeys(PRACTICE, True)
    changed = Memory().after_step(accepted=True, practice=solved)
    assert len(due(changed)) == RECHECKED
    assert due(changed.after_step(accepted=False, practice=solved)) == set()


def test_tasks_that_turn_out_to_be_broken_are_unsolved_from_then_on() -> None:
    memory = Memory().after_step(accepted=True, practice=PRACTICE)
    memory = memory.after_step(accepted=False, practice={"t03": False})
    assert {FAILS, "t03"} <= due(memory)


def test_where_solved_tasks_are_repeated_a_step_has_all_of_its_tasks() -> None:
    memory = Memory().after_step(accepted=True, practice=PRACTICE)
    assert due(memory, repeat_solved=True) == PRACTICE.keys()
