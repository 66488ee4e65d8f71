"""Several rounds of proposing in one step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support import Seen

from skillopt.core.chat import Usage
from skillopt.core.edits import Append, Change
from skillopt.core.memory import Memory
from skillopt.core.proposal import Draft, Dropped, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Batches, Failure, Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import BudgetSpent
from skillopt.optimizer.merging import Union
from skillopt.optimizer.parts import Evidence, Selector
from skillopt.optimizer.pipeline import Pipeline
from skillopt.optimizer.rounds import IDLE, PER_TASK, Reserve, Rounds
from skillopt.optimizer.update import Patch, control

SKILL = Skill.parse("Start.\n")
TASKS = ("one", "two", "three")


def passes(skill: Skill, task: str) -> bool:
    return f"- {task}" in skill.body.splitlines()


def rollout(skill: Skill, task: str) -> Rollout:
    mark = float(passes(skill, task))
    asked = Trajectory((), "", usage=Usage(calls=1))
    return Rollout(task=task, skill=skill.digest, outcome=Score(mark, mark), trajectory=asked)


class Batch:
    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for task in TASKS:
            yield rollout(SKILL, task)


class CountingBudget:
    """Allows so many attempts beside what is kept."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.kept = 0

    @contextmanager
    def keeping(self, usage: Usage) -> Generator[None, None, None]:
        self.kept = usage.calls
        yield
        self.kept = 0

    def room(self, each: Usage) -> int:
        return max(0, self.calls - self.kept) // each.calls

    def shortage(self, usage: Usage, what: str) -> str | None:
        short = self.calls - self.kept < usage.calls
        return f"too little for {what}" if short else None

    def pay(self, calls: int) -> None:
        if self.calls - self.kept < calls:
            self.kept = 0
            raise BudgetSpent("no more")
        self.calls -= calls


class Proposer:
    """Proposes the rule of the first task that fails, as often as it may."""

    def __init__(self, most: int = 9) -> None:
        self.most = most
        self.seen: list[list[str]] = []

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        attempts = [each for batch in batches async for each in batch]
        failed = [each.task for each in attempts if each.outcome != Score(1, 1)]
        assert all(each.skill == skill.digest for each in attempts if each.task in failed)
        self.seen.append(failed)
        if len(self.seen) > self.most:
            return ()
        proposal = Proposal(Append(f"- {failed[0]}"), "failure", (failed[0],))
        return (
            Finding(source="failure", batch=0, number=0, tasks=(*failed,), proposals=(proposal,)),
        )


class Everything:
    """Chooses all proposals."""

    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        return self.choice(merged)

    def choice(self, merged: ProposalSet) -> Selection:
        return Selection(merged.proposals, indices=tuple(range(len(merged.proposals))))


async def drafted(
    proposer: Proposer,
    rounds: int,
    budget: int | None = None,
    limited: CountingBudget | None = None,
    select: Selector | None = None,
) -> Draft:
    async def attempt(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        if limited:
            limited.pay(len(tasks))
        return [rollout(skill, task) for task in tasks]

    sink = EventSink(MemoryLog(), Seen())
    pipeline = Pipeline(
        reflect=proposer,
        merge=Union(),
        select=select or Everything(),
        update=Patch(sink=sink),
    )
    reserve = Reserve(limited, 4) if limited else None
    optimizer = Rounds(pipeline=pipeline, attempt=attempt, most=rounds, reserve=reserve)
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


class Tries(Everything):
    """Also tells that the first task passes and that one which was solved fails."""

    def choice(self, merged: ProposalSet) -> Selection:
        chosen = super().choice(merged)
        held = rollout(Skill.parse("- one\n"), "one")
        candidate = Skill.parse("Start.\n\n- one\n")
        return replace(chosen, tried=(held, rollout(candidate, "solved")))


async def test_what_the_selector_has_tried_is_not_attempted_again_and_is_told() -> None:
    proposer, limited = Proposer(), CountingBudget(99)
    draft = await drafted(proposer, rounds=2, limited=limited, select=Tries())
    assert limited.calls == 99 - 2, "two and three"
    assert proposer.seen[1] == ["two", "three", "solved"]
    assert draft.repaired == ("one",)
    solved = Memory(solved=frozenset(("solved",)))
    pipeline = Pipeline(
        reflect=Proposer(),
        merge=Union(),
        select=Tries(),
        update=Patch(sink=EventSink(MemoryLog(), Seen())),
    )
    one = Rounds(pipeline=pipeline, attempt=_nothing, most=1)
    draft = await one.propose(SKILL, [Batch()], solved, budget=None)
    assert draft.broken == ("solved",)


async def _nothing(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
    return []


async def test_rounds_work_on_as_many_tasks_as_the_budget_allows_beside_the_gate() -> None:
    proposer = Proposer()
    draft = await drafted(proposer, rounds=3, limited=CountingBudget(4 + 2 * PER_TASK))
    assert proposer.seen[0] == ["one", "two"]
    assert draft.leading.skill is not None


@pytest.mark.parametrize("tasks", [0, 1, 2])
async def test_where_a_limit_left_tasks_out_finding_nothing_is_not_the_end(tasks: int) -> None:
    limited = CountingBudget(4 + tasks * PER_TASK)
    with pytest.raises(BudgetSpent, match="too little for a step that works on 3 failed tasks"):
        await drafted(Proposer(most=0), rounds=3, limited=limited)
    ample = CountingBudget(4 + 3 * PER_TASK)
    assert (await drafted(Proposer(most=0), rounds=3, limited=ample)).leading.skill is None


async def test_a_later_round_that_a_limit_ends_is_not_the_end_either() -> None:
    class Vain(Everything):
        def choice(self, merged: ProposalSet) -> Selection:
            limited.pay(9)
            return Selection(())

    limited = CountingBudget(4 + 4 * PER_TASK)
    with pytest.raises(BudgetSpent, match="no more"):
        await drafted(Proposer(), rounds=3, limited=limited, select=Vain())


async def test_a_task_without_a_score_is_not_broken() -> None:
    class Down(Batch):
        async def __aiter__(self) -> AsyncIterator[Rollout]:
            async for each in super().__aiter__():
                down = each.task == "two"
                yield replace(each, outcome=Failure("ModelError", "down")) if down else each

    pipeline = Pipeline(
        reflect=Proposer(most=0),
        merge=Union(),
        select=Everything(),
        update=Patch(sink=EventSink(MemoryLog(), Seen())),
    )
    optimizer = Rounds(pipeline=pipeline, attempt=_nothing, most=1)
    solved = Memory(solved=frozenset(("two", "three")))
    draft = await optimizer.propose(SKILL, [Down()], solved, budget=None)
    assert draft.broken == ("three",)


async def test_the_first_round_leaves_what_the_gate_needs_too() -> None:
    limited, kept = CountingBudget(100), list[int]()

    class Watching(Everything):
        def choice(self, merged: ProposalSet) -> Selection:
            kept.append(limited.kept)
            return super().choice(merged)

    await drafted(Proposer(), 2, limited=limited, select=Watching())
    assert kept[0] == kept[1] > 0


@pytest.mark.parametrize(("calls", "sparing"), [(99, False), (4 + 3 * PER_TASK, True)])
async def test_rounds_are_sparing_where_little_may_be_spent(calls: int, *, sparing: bool) -> None:
    told: list[bool] = []

    class Watching(Everything):
        async def __call__(
            self,
            skill: Skill,
            merged: ProposalSet,
            memory: Memory,
            *,
            budget: int | None,
            evidence: Evidence,
        ) -> Selection:
            told.append(memory.sparing)
            return self.choice(merged)

    await drafted(Proposer(), 2, limited=CountingBudget(calls), select=Watching())
    assert told == [sparing] * 2


async def test_a_round_that_would_take_what_the_gate_needs_is_given_up() -> None:
    class Costly(Everything):
        def choice(self, merged: ProposalSet) -> Selection:
            limited.pay(6)
            return super().choice(merged)

    limited = CountingBudget(6 + 2 * PER_TASK)
    draft = await drafted(Proposer(), rounds=3, limited=limited, select=Costly())
    assert draft.leading.skill is not None
    assert [task for task in TASKS if passes(draft.leading.skill, task)] == ["one"]
    assert limited.calls >= 4


async def test_rounds_end_when_nothing_is_left_or_nothing_comes() -> None:
    done, idle = Proposer(), Proposer(most=1)
    await drafted(done, rounds=9)
    assert len(done.seen) == 3
    draft = await drafted(idle, rounds=9)
    assert len(idle.seen) == 1 + IDLE
    assert draft.leading.skill is not None
    assert passes(draft.leading.skill, "one")


async def test_the_learning_rate_holds_for_all_rounds_together() -> None:
    draft = await drafted(Proposer(), rounds=9, budget=2)
    assert len(draft.leading.changes) == 2


class Late(Proposer):
    """Has nothing to propose at first."""

    def __init__(self, idle: int) -> None:
        super().__init__()
        self.idle = idle
        self.asked = 0

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        self.asked += 1
        if self.asked <= self.idle:
            return ()
        return await super().__call__(skill, batches, memory, budget=budget)


async def test_a_first_round_without_a_candidate_is_followed_by_others() -> None:
    draft = await drafted(Late(IDLE - 1), rounds=9)
    assert draft.leading.skill is not None
    assert all(passes(draft.leading.skill, task) for task in TASKS)


async def test_a_step_in_which_nothing_comes_is_over_after_as_many_rounds_as_any_other() -> None:
    late = Late(99)
    assert (await drafted(late, rounds=9)).leading.skill is None
    assert late.asked == IDLE


class Nothing(Everything):
    """Keeps no proposal."""

    def choice(self, merged: ProposalSet) -> Selection:
        return Selection(dropped=tuple(Dropped(each, "no use") for each in merged.proposals))


async def test_a_round_is_told_what_earlier_ones_have_proposed_in_vain() -> None:
    told: list[list[Change]] = []

    class Reading(Proposer):
        async def __call__(
            self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
        ) -> tuple[Finding, ...]:
            told.append([edit for entry in memory.steps for edit in entry.rejected])
            return await super().__call__(skill, batches, memory, budget=budget)

    await drafted(Reading(), rounds=2, select=Nothing())
    assert told == [[], [Append("- one")]]


async def test_a_solved_task_that_fails_now_is_tried_in_another_text_before_it_is_asked_about() -> (
    None
):
    """Two tasks were solved; one fails only with the very text of the skill."""
    tried: list[tuple[Skill, list[str]]] = []

    async def attempt(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        tried.append((skill, list(tasks)))
        mark = Score(1, 1)
        return [
            replace(found, outcome=mark) if found.task == "one" else found
            for found in (rollout(skill, task) for task in tasks)
        ]

    proposer = Proposer()
    pipeline = Pipeline(
        reflect=proposer,
        merge=Union(),
        select=Everything(),
        update=Patch(sink=EventSink(MemoryLog(), Seen())),
    )
    memory = Memory(solved=frozenset(("one", "two")))
    await Rounds(pipeline=pipeline, attempt=attempt, most=1).propose(
        SKILL, [Batch()], memory, budget=None
    )
    assert tried == [(control(SKILL), ["one", "two"])]
    assert proposer.seen == [["two", "three"]]
