"""Several rounds of proposing in one step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from support import Seen

from skillopt.core.edits import Append
from skillopt.core.memory import Memory
from skillopt.core.proposal import Draft, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.optimizer.merging import Union
from skillopt.optimizer.parts import Evidence
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.rounds import Rounds
from skillopt.optimizer.update import Patch

SKILL = Skill.parse("Start.\n")
TASKS = ("one", "two", "three")


def passes(skill: Skill, task: str) -> bool:
    return f"- {task}" in skill.body.splitlines()


def rollout(skill: Skill, task: str) -> Rollout:
    mark = float(passes(skill, task))
    return Rollout(task=task, skill=skill.digest, outcome=Score(mark, mark))


class Batch:
    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for task in TASKS:
            yield rollout(SKILL, task)


class Proposer:
    """Proposes the rule of the first task that fails, as often as it may."""

    def __init__(self, most: int = 9) -> None:
        self.most = most
        self.seen: list[list[str]] = []

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        attempts = [each for batch in batches async for each in batch]
        failed = [each.task for each in attempts if not passes(skill, each.task)]
        assert all(each.skill == skill.digest for each in attempts if each.task in failed)
        self.seen.append(failed)
        if len(self.seen) > self.most:
            return ()
        proposal = Proposal(Append(f"- {failed[0]}"), "failure", (failed[0],))
        return (
            Finding(source="failure", batch=0, number=0, tasks=(*failed,), proposals=(proposal,)),
        )


class Everything:
    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        return Selection(merged.proposals, indices=tuple(range(len(merged.proposals))))


async def drafted(proposer: Proposer, rounds: int, budget: int | None = None) -> Draft:
    tried: list[str] = []

    async def attempt(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        tried.extend(tasks)
        return [rollout(skill, task) for task in tasks]

    sink = EventSink(MemoryLog(), Seen())
    pipeline = Pipeline(
        reflect=proposer, merge=Union(), select=Everything(), update=Patch(sink=sink)
    )
    optimizer = Rounds(pipeline=pipeline, attempt=attempt, most=rounds)
    return await optimizer.propose(SKILL, [Batch()], Memory(), budget=budget)


async def test_each_round_sees_what_the_last_one_left_unsolved_and_the_gate_their_sum() -> None:
    proposer = Proposer()
    draft = await drafted(proposer, rounds=3)
    assert proposer.seen == [["one", "two", "three"], ["two", "three"], ["three"]]
    candidate = draft.leading
    assert candidate.skill is not None
    assert all(passes(candidate.skill, task) for task in TASKS)
    assert [proposal.edit for proposal in draft.merged.proposals] == list(candidate.changes)
    assert candidate.chosen.indices == (0, 1, 2)
    assert [finding.number for finding in draft.findings] == [0, 1, 2]


async def test_tasks_that_passed_on_the_way_are_told() -> None:
    assert (await drafted(Proposer(), rounds=3)).repaired == ("one", "two")
    assert (await drafted(Proposer(), rounds=1)).repaired == ()


async def test_rounds_end_when_nothing_is_left_or_nothing_comes() -> None:
    done, idle = Proposer(), Proposer(most=1)
    await drafted(done, rounds=9)
    assert len(done.seen) == 3
    draft = await drafted(idle, rounds=9)
    assert len(idle.seen) == 2
    assert draft.leading.skill is not None
    assert passes(draft.leading.skill, "one")


async def test_the_learning_rate_holds_for_all_rounds_together() -> None:
    draft = await drafted(Proposer(), rounds=9, budget=2)
    assert len(draft.leading.changes) == 2


async def test_a_first_round_without_a_candidate_is_the_last() -> None:
    proposer = Proposer(most=0)
    draft = await drafted(proposer, rounds=3)
    assert draft.leading.skill is None
    assert len(proposer.seen) == 1
