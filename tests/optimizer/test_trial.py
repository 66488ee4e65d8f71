from __future__ import annotations

from collections.abc import Sequence

from support import Seen

from skillopt.core.edits import Append, Edit, Replace
from skillopt.core.journal import Journal
from skillopt.core.memory import Entry, Memory
from skillopt.core.proposal import Bundle, Proposal, Selection
from skillopt.core.rollout import Failure, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.optimizer.trial import Trial
from skillopt.testing.doubles import MemoryRecord

SKILL = Skill.parse("Start.\n")
TASKS = ("a", "b", "c", "d", "e")


def proposal(edit: Edit, pattern: str) -> Proposal:
    return Proposal(edit, "failure", TASKS, pattern)


GOOD, BETTER, OTHER, BAD = (
    proposal(Append("- good"), "dates"),
    proposal(Append("- better"), "dates"),
    proposal(Append("- other"), "teams"),
    proposal(Append("- bad"), "sizes"),
)
REPAIRS = {"good": 1, "better": 3, "other": 2, "bad": 0}


async def attempt(skill: Skill, tasks: Sequence[str]) -> list[Rollout]:
    assert len(tasks) == 4
    right = next((count for word, count in REPAIRS.items() if f"- {word}" in skill.body), 0)
    marks = [Score(float(n < right), 0) for n in range(3)]
    return [
        *(
            Rollout(task=task, skill="d", outcome=mark)
            for task, mark in zip(tasks, marks, strict=False)
        ),
        Rollout(task=tasks[-1], skill="d", outcome=Failure("ModelError", "down")),
    ]


async def selected(
    *proposals: Proposal, budget: int = 4, memory: Memory | None = None
) -> Selection:
    trial = Trial(attempt=attempt, journal=Journal(MemoryRecord(), Seen()))
    return await trial(SKILL, Bundle(proposals), memory or Memory(), budget=budget)


async def test_what_repairs_most_is_kept_one_per_pattern_and_what_repairs_nothing_is_not() -> None:
    chosen = await selected(GOOD, BETTER, OTHER, BAD)
    assert chosen.proposals == (BETTER, OTHER)
    assert chosen.indices == (1, 2)
    assert "1: repaired 3" in chosen.reasoning


async def test_the_budget_bounds_the_choice_and_zero_tries_nothing() -> None:
    assert (await selected(GOOD, BETTER, OTHER, budget=1)).proposals == (BETTER,)
    assert await selected(GOOD, budget=0) == Selection()
    assert await selected() == Selection()


async def test_an_edit_that_changes_nothing_is_not_tried() -> None:
    assert (await selected(proposal(Replace("absent", "x"), "dates"))).proposals == ()


async def test_what_was_rejected_before_comes_last() -> None:
    entry = Entry(step=1, action="reject", n_total=1, n_fail=1, rejected=(BETTER.edit,))
    chosen = await selected(GOOD, BETTER, memory=Memory((entry,)))
    assert chosen.proposals == (GOOD,)
