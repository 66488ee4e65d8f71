from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from support import Seen

from skillopt.core.edits import Delete
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding
from skillopt.core.rollout import Rollout, Score
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.optimizer.revert import Revert

SKILL = Skill.parse("Start.\n\n- good\n- bad\n- idle\n")
TASKS = tuple(f"task {n}" for n in range(6))


def rollout(task: str, *, passed: bool) -> Rollout:
    return Rollout(task=task, skill="d", outcome=Score(float(passed), 0.0))


class Batch:
    async def __aiter__(self) -> AsyncIterator[Rollout]:
        yield rollout("solved", passed=True)
        for task in TASKS:
            yield rollout(task, passed=False)


class Target:
    """`- bad` spoils the first tasks; leaving out any line by chance repairs those of `lucky`."""

    def __init__(self, spoilt: int, lucky: int = 0) -> None:
        self.spoilt, self.lucky = TASKS[:spoilt], TASKS[:lucky]
        self.calls = 0

    async def __call__(
        self, skill: Skill, tasks: Sequence[str], replicate: int = 0
    ) -> list[Rollout]:
        self.calls += len(tasks)
        good = self.lucky if "- bad" in skill.body else {*self.spoilt, *self.lucky}
        return [rollout(task, passed=task in good) for task in tasks]


async def reverted(target: Target, memory: Memory) -> tuple[Finding, ...]:
    revert = Revert(attempt=target, sink=EventSink(MemoryLog(), Seen()))
    return await revert(SKILL, [Batch()], memory, budget=None)


async def test_the_rule_without_which_most_failed_tasks_pass_is_proposed_for_deletion() -> None:
    (finding,) = await reverted(Target(spoilt=3, lucky=1), Memory(fruitless=1))
    (proposal,) = finding.proposals
    assert proposal.edit == Delete("- bad")
    assert sorted(proposal.tasks) == sorted(TASKS[:3])
    assert proposal.why == "without this rule 3 of 6 failed tasks pass"


async def test_tasks_that_pass_whichever_rule_is_left_out_say_nothing_about_a_rule() -> None:
    assert not await reverted(Target(spoilt=2, lucky=3), Memory(fruitless=1))


async def test_one_task_is_not_enough_to_suspect_a_rule() -> None:
    assert not await reverted(Target(spoilt=1), Memory(fruitless=1))


async def test_nothing_is_tried_while_steps_still_improve_the_skill() -> None:
    target = Target(spoilt=3)
    assert not await reverted(target, Memory())
    assert target.calls == 0
