from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support import Seen

from skillopt.core.chat import Message
from skillopt.core.edits import Append, Delete, Edit, Replace
from skillopt.core.events import Ticked
from skillopt.core.memory import Memory, MemoryEntry
from skillopt.core.proposal import Proposal, ProposalSet, Selection
from skillopt.core.rollout import Failure, Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.errors import BudgetSpent
from skillopt.optimizer.parts import Evidence
from skillopt.optimizer.trial import Trial

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


TRIED: list[tuple[int, int]] = []


async def attempt(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
    right = max((REPAIRS[word] for word in REPAIRS if f"- {word}" in skill.body), default=0)
    TRIED.append((right, len(tasks)))
    down = Failure("ModelError", "down")
    marks = {task: Score(float(n < right), 0) for n, task in enumerate(TASKS[:3])}
    return [Rollout(task=each, skill="d", outcome=marks.get(each, down)) for each in tasks]


async def selected(
    *proposals: Proposal, budget: int = 4, memory: Memory | None = None
) -> Selection:
    trial = Trial(attempt=attempt, sink=EventSink(MemoryLog(), Seen()))
    return await trial(
        SKILL, ProposalSet(proposals), memory or Memory(), budget=budget, evidence=Evidence()
    )


async def test_a_rule_is_kept_if_it_repairs_what_no_better_one_does_and_the_rest_is_told() -> None:
    chosen = await selected(GOOD, BETTER, OTHER, BAD)
    assert chosen.proposals == (BETTER,)
    assert chosen.indices == (1,)
    assert "1: repaired 3" in chosen.reasoning
    assert [(each.proposal, each.reason) for each in chosen.dropped] == [
        (GOOD, "alone it repaired 1 of 4 tasks, all of which rules that are kept repair too"),
        (OTHER, "alone it repaired 2 of 4 tasks, all of which rules that are kept repair too"),
        (BAD, "alone it repaired none of 4 tasks (1 without a score)"),
    ]


async def test_two_rules_for_one_reason_are_both_kept_if_each_repairs_tasks_of_its_own() -> None:
    async def apart(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = {"a": "- one" in skill.body, "b": "- two" in skill.body}
        return [
            Rollout(task=each, skill="d", outcome=Score(float(right[each]), 0)) for each in tasks
        ]

    one, two = (
        Proposal(Append(f"- {text}"), "failure", ("a", "b"), "dates") for text in ("one", "two")
    )
    trial = Trial(attempt=apart, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(SKILL, ProposalSet((one, two)), Memory(), budget=4, evidence=Evidence())
    assert chosen.proposals == (one, two)
    assert chosen.dropped == ()


async def test_a_rule_that_misses_its_first_task_is_still_tried_on_the_others() -> None:
    async def late(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        marks = {each: float(each != "a" and "- rule" in skill.body) for each in tasks}
        return [Rollout(task=each, skill="d", outcome=Score(marks[each], 0)) for each in tasks]

    rule = proposal(Append("- rule"), "dates")
    trial = Trial(attempt=late, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(SKILL, ProposalSet((rule,)), Memory(), budget=4, evidence=Evidence())
    assert chosen.proposals == (rule,)


async def test_the_budget_bounds_the_choice_and_zero_tries_nothing() -> None:
    assert (await selected(GOOD, BETTER, OTHER, budget=1)).proposals == (BETTER,)
    nothing = await selected(GOOD, budget=0)
    assert nothing.proposals == ()
    assert [each.reason for each in nothing.dropped] == ["the learning rate of this step is 0"]
    assert await selected() == Selection()


async def test_an_edit_that_changes_nothing_is_not_tried() -> None:
    assert (await selected(proposal(Replace("absent", "x"), "dates"))).proposals == ()


async def test_what_was_rejected_before_is_not_tried_again() -> None:
    entry = MemoryEntry(step=1, action="reject", n_total=1, n_fail=1, rejected=(BETTER.edit,))
    chosen = await selected(GOOD, BETTER, memory=Memory((entry,)))
    assert chosen.proposals == (GOOD,)


async def test_a_rule_that_a_line_stands_against_is_tried_again_without_the_line() -> None:
    async def contradicted(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = float("- rule" in skill.body and "Start." not in skill.body)
        return [Rollout(task=each, skill="d", outcome=Score(right, right)) for each in tasks]

    rule, clearing = proposal(Append("- rule"), "dates"), proposal(Delete("Start."), "wordy")
    trial = Trial(attempt=contradicted, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(
        SKILL, ProposalSet((rule, clearing)), Memory(), budget=4, evidence=Evidence()
    )
    assert chosen.proposals == (clearing, rule)
    alone = await trial(SKILL, ProposalSet((clearing,)), Memory(), budget=4, evidence=Evidence())
    assert alone.proposals == ()


async def test_every_rule_is_tried_on_as_many_of_its_tasks_as_the_setting_says() -> None:
    TRIED.clear()
    await selected(BETTER, BAD)
    assert sorted(TRIED) == [(0, 4), (3, 4), (3, 4)]


async def test_why_a_rule_was_not_even_tried_is_told_as_well() -> None:
    rejected = MemoryEntry(step=1, action="reject", n_total=1, n_fail=1, rejected=(BETTER.edit,))
    absent = proposal(Replace("absent", "x"), "dates")
    chosen = await selected(BETTER, absent, memory=Memory((rejected,)))
    assert [each.reason for each in chosen.dropped] == [
        "it was part of a candidate that the gate rejected",
        "it changes nothing in the skill",
    ]


async def test_what_breaks_the_repairs_of_others_stays_out() -> None:
    async def jealous(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        """The greedy rule takes over every task once it is there."""
        greedy, modest = "- greedy" in skill.body, "- modest" in skill.body
        right = {"g": greedy, "m": modest and not greedy}
        return [
            Rollout(task=each, skill="d", outcome=Score(float(right[each[0]]), 0)) for each in tasks
        ]

    modest = Proposal(Append("- modest"), "failure", ("m1", "m2", "m3"), "dates")
    greedy = Proposal(Append("- greedy"), "failure", ("g1", "g2"), "teams")
    trial = Trial(attempt=jealous, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(
        SKILL, ProposalSet((greedy, modest)), Memory(), budget=4, evidence=Evidence()
    )
    assert chosen.proposals == (modest,)


async def test_a_rule_that_spoils_another_is_exchanged_for_its_pattern_s_next() -> None:
    async def crowded(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        """The loud rule is right alone, but drowns the rule for dates."""
        loud, quiet, dates = (f"- {word}" in skill.body for word in ("loud", "quiet", "dates"))
        right = {"t": loud or quiet, "d": dates and not loud}
        return [
            Rollout(task=each, skill="d", outcome=Score(float(right[each[0]]), 0)) for each in tasks
        ]

    def rule(text: str, pattern: str, *tasks: str) -> Proposal:
        return Proposal(Append(f"- {text}"), "failure", tasks, pattern)

    dates = rule("dates", "dates", "d1", "d2")
    loud, quiet = (rule(text, "teams", "t1", "t2") for text in ("loud", "quiet"))
    poor = rule("poor", "dates", "d1", "d2")
    trial = Trial(attempt=crowded, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(
        SKILL, ProposalSet((dates, poor, loud, quiet)), Memory(), budget=4, evidence=Evidence()
    )
    assert chosen.proposals == (dates, quiet)


async def test_a_line_that_no_rule_needs_gone_stays() -> None:
    async def harmless(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = float("- rule" in skill.body)
        return [Rollout(task=each, skill="d", outcome=Score(right, right)) for each in tasks]

    rule, clearing = proposal(Append("- rule"), "dates"), proposal(Delete("Start."), "wordy")
    trial = Trial(attempt=harmless, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(
        SKILL, ProposalSet((rule, clearing)), Memory(), budget=4, evidence=Evidence()
    )
    assert chosen.proposals == (rule,)


def told_by(proposer: str, text: str, *tasks: str) -> Proposal:
    return Proposal(Append(f"- {text}"), "failure", tasks, "dates", by=proposer)


async def needs_both(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
    """A task whose name ends with 1 needs only the examples, others the rule for them as well."""
    shown, said = "- examples" in skill.body, "- rule" in skill.body
    return [
        Rollout(task=each, skill="d", outcome=Score(float(shown and (said or each[-1] == "1")), 0))
        for each in tasks
    ]


async def test_a_rule_that_repairs_nothing_alone_joins_the_examples_that_it_completes() -> None:
    rule = told_by("instruct", "rule", "a1", "a2")
    examples = told_by("patterns", "examples", "a1", "a2")
    idle = told_by("instruct", "idle", "b1", "b2")
    trial = Trial(attempt=needs_both, sink=EventSink(MemoryLog(), Seen()))
    proposed = ProposalSet((idle, rule, examples))
    chosen = await trial(SKILL, proposed, Memory(), budget=4, evidence=Evidence())
    assert chosen.proposals == (examples, rule)
    assert [each.proposal for each in chosen.dropped] == [idle]
    alone = await trial(SKILL, proposed, Memory(), budget=1, evidence=Evidence())
    assert alone.proposals == (examples,), "the learning rate allows one edit"


async def test_rules_of_two_proposers_that_repair_nothing_alone_are_tried_as_a_pair() -> None:
    rule = told_by("instruct", "rule", "a2", "a3")
    examples = told_by("patterns", "examples", "a2", "a3")
    trial = Trial(attempt=needs_both, sink=EventSink(MemoryLog(), Seen()))
    chosen = await trial(
        SKILL, ProposalSet((rule, examples)), Memory(), budget=4, evidence=Evidence()
    )
    assert chosen.proposals == (rule, examples)
    assert chosen.dropped == ()


async def test_where_little_may_be_spent_only_rules_that_repair_one_are_tried_on_more() -> None:
    TRIED.clear()
    trial = Trial(attempt=attempt, sink=EventSink(MemoryLog(), Seen()))
    memory = Memory(sparing=True)
    chosen = await trial(
        SKILL, ProposalSet((GOOD, BETTER, BAD)), memory, budget=4, evidence=Evidence()
    )
    assert chosen.proposals == (BETTER,)
    assert sorted(TRIED[:5]) == [(0, 2), (1, 2), (1, 2), (3, 2), (3, 2)]
    assert {(0, 4), (1, 4)}.isdisjoint(TRIED)


async def test_where_little_may_be_spent_a_rule_that_was_lucky_loses_to_one_that_repairs_more() -> (
    None
):
    async def lucky(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = {"a", "c"} if "- lucky" in skill.body else {"b", "c", "d"}
        marks = {task: float(task in right) for task in tasks}
        return [Rollout(task=each, skill="d", outcome=Score(marks[each], 0)) for each in tasks]

    first, second = proposal(Append("- lucky"), "dates"), proposal(Append("- right"), "dates")
    trial = Trial(attempt=lucky, sink=EventSink(MemoryLog(), Seen()))
    memory = Memory(sparing=True)
    chosen = await trial(SKILL, ProposalSet((first, second)), memory, budget=4, evidence=Evidence())
    assert chosen.proposals == (second,)
    assert [each.reason for each in chosen.dropped] == [
        "without it 3 of 4 tried tasks are repaired together, with it 2"
    ]


@pytest.mark.parametrize("allowed", range(7))
async def test_when_a_limit_ends_the_trial_what_has_repaired_a_task_is_kept(allowed: int) -> None:
    calls = 0

    async def limited(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        nonlocal calls
        calls += 1
        if calls > allowed:
            raise BudgetSpent("limits.calls is reached")
        return await attempt(skill, tasks, replicate)

    trial = Trial(attempt=limited, sink=EventSink(MemoryLog(), Seen()))
    proposed = ProposalSet((GOOD, BETTER, OTHER))
    if allowed == 0:
        # Nothing is known yet: with a higher limit, the step is made again.
        with pytest.raises(BudgetSpent):
            await trial(SKILL, proposed, Memory(), budget=4, evidence=Evidence())
        return
    chosen = await trial(SKILL, proposed, Memory(), budget=4, evidence=Evidence())
    assert chosen.proposals == ((GOOD,), *([(BETTER,)] * 5))[allowed - 1]
    told = {each.proposal: each.reason for each in chosen.dropped}
    untried = [it for n, it in enumerate((GOOD, BETTER, OTHER)) if n >= allowed]
    assert all(told[it] == "a limit ended the trial" for it in untried)


async def test_that_a_task_passes_which_a_rule_shows_is_no_evidence_for_the_rule() -> None:
    asked = [Message("user", "How heavy is\n3 kilos?")]
    shown = Rollout(
        task="a", skill="d", outcome=Score(0.0, 0.0), trajectory=Trajectory(tuple(asked), "3")
    )

    async def copies(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = float('"How heavy is 3 kilos?" is 3 kg.' in skill.body)
        return [Rollout(task=each, skill="d", outcome=Score(right, right)) for each in tasks]

    rule = Proposal(Append('- "How heavy is 3 kilos?" is 3 kg.'), "failure", ("a", "b"), "weights")
    trial = Trial(attempt=copies, sink=EventSink(MemoryLog(), Seen()))
    evidence = Evidence(rollouts=[shown])
    chosen = await trial(SKILL, ProposalSet((rule,)), Memory(), budget=4, evidence=evidence)
    assert chosen.reasoning == "tried on their own tasks: 0: repaired 1"
    only = replace(rule, tasks=("a",))
    chosen = await trial(SKILL, ProposalSet((only,)), Memory(), budget=4, evidence=evidence)
    assert chosen.proposals == ()


async def test_lines_that_may_stand_against_rules_leave_room_for_a_rule() -> None:
    skill = Skill.parse("One.\n\nTwo.\n")

    async def attempted(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = float("- rule" in skill.body)
        return [Rollout(task=each, skill="d", outcome=Score(right, right)) for each in tasks]

    proposed = ProposalSet(
        (
            proposal(Delete("One."), "wordy"),
            proposal(Delete("Two."), "wordy"),
            proposal(Append("- rule"), "dates"),
        )
    )
    trial = Trial(attempt=attempted, sink=EventSink(MemoryLog(), Seen()))
    for budget in (1, 2, 3):
        chosen = await trial(skill, proposed, Memory(), budget=budget, evidence=Evidence())
        assert chosen.proposals == proposed.proposals[2:]


async def test_trying_rules_together_reports_progress_like_trying_them_alone() -> None:
    seen = Seen()
    one, two = (Proposal(Append(f"- {text}"), "failure", TASKS[:2], "d") for text in ("one", "two"))

    async def apart(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        right = {"a": "- one" in skill.body, "b": "- two" in skill.body}
        return [
            Rollout(task=each, skill="d", outcome=Score(float(right[each]), 0)) for each in tasks
        ]

    trial = Trial(attempt=apart, sink=EventSink(MemoryLog(), seen))
    chosen = await trial(SKILL, ProposalSet((one, two)), Memory(), budget=4, evidence=Evidence())
    assert chosen.proposals == (one, two)
    assert sum(isinstance(each, Ticked) for each in seen.events) == 3


async def test_an_exchange_is_tried_on_what_is_broken_first_and_no_further_if_all_of_it_stays() -> (
    None
):
    asked: list[tuple[bool, tuple[str, ...]]] = []

    async def stubborn(skill: Skill, tasks: Sequence[str], replicate: int = 0) -> list[Rollout]:
        """Two wordings for the same tasks, of which one can be repaired by neither."""
        asked.append(("- second" in skill.body, tuple(tasks)))
        return [
            Rollout(task=each, skill="d", outcome=Score(float(each != "c"), 0)) for each in tasks
        ]

    first, second = (
        Proposal(Append(f"- {text}"), "failure", TASKS[:3], "dates") for text in ("first", "second")
    )
    trial = Trial(attempt=stubborn, sink=EventSink(MemoryLog(), Seen()))
    both = ProposalSet((first, second))
    chosen = await trial(SKILL, both, Memory(), budget=4, evidence=Evidence())
    assert chosen.proposals == (first,)
    assert [tasks for other, tasks in asked if other] == [TASKS[:3], ("c",)]
