from __future__ import annotations

import json
from collections.abc import AsyncIterator

from support import Seen, analysis

from skillopt.core.chat import Message, Request
from skillopt.core.edits import Append
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Proposal, ProposalSet, Source
from skillopt.core.rollout import Failure, Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.model.scripted import Scripted
from skillopt.optimizer.merging import Aggregate
from skillopt.optimizer.reflect import Reflect
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

SKILL = Skill.parse("Body.\n")


def asker(model: Scripted) -> Asker:
    return Asker(model, Library(), EventSink(MemoryLog(), Seen()))


async def stream(marks: str, prefix: str = "t") -> AsyncIterator[Rollout]:
    for index, mark in enumerate(marks):
        outcome = Failure("ModelError", "down") if mark == "x" else Score(float(mark), 0.5)
        yield Rollout(task=f"{prefix}{index}", skill="d", outcome=outcome)


async def findings(reflect: Reflect, *batches: str, budget: int = 4) -> tuple[Finding, ...]:
    streams = [stream(marks, f"b{index}-") for index, marks in enumerate(batches)]
    return await reflect(SKILL, streams, Memory(), budget=budget)


async def test_failures_and_successes_are_read_apart_in_minibatches_of_one_micro_batch() -> None:
    reflect = Reflect(asker=asker(Scripted(lambda _: analysis("r"))), minibatch_size=2)
    found = await findings(reflect, "0100x1", "01")
    assert [(each.source, each.batch, each.number, each.tasks) for each in found] == [
        ("failure", 0, 0, ("b0-0", "b0-2")),
        ("failure", 0, 1, ("b0-3",)),
        ("failure", 1, 2, ("b1-0",)),
        ("success", 0, 0, ("b0-1", "b0-5")),
        ("success", 1, 1, ("b1-1",)),
    ]


async def test_partial_credit_is_a_failure_to_learn_from() -> None:
    async def half() -> AsyncIterator[Rollout]:
        yield Rollout(task="t", skill="d", outcome=Score(0.5, 0.5))

    reflect = Reflect(asker=asker(Scripted(lambda _: analysis("r"))))
    (found,) = await reflect(SKILL, [half()], Memory(), budget=1)
    assert found.source == "failure"


async def test_successes_can_be_left_out() -> None:
    reflect = Reflect(asker=asker(Scripted(lambda _: analysis("r"))), failure_only=True)
    assert {each.source for each in await findings(reflect, "0101")} == {"failure"}


async def test_proposals_beyond_the_budget_are_dropped() -> None:
    reflect = Reflect(asker=asker(Scripted(lambda _: analysis("a", "b", "c"))))
    (found,) = await findings(reflect, "00", budget=2)
    assert [each.edit for each in found.proposals] == [Append("- a"), Append("- b")]
    (none,) = await findings(reflect, "00", budget=0)
    assert none.proposals == ()


async def test_support_is_counted_from_tasks_that_were_really_shown() -> None:
    def claims(_: Request) -> str:
        edits = [
            {"op": "append", "content": "a", "tasks": ["b0-0", "invented"]},
            {"op": "append", "content": "b"},
        ]
        return json.dumps({"edits": edits})

    (found,) = await findings(Reflect(asker=asker(Scripted(claims))), "00")
    assert [each.tasks for each in found.proposals] == [("b0-0",), ("b0-0", "b0-1")]


async def test_an_unusable_analysis_is_recorded_and_the_others_count() -> None:
    def half_broken(request: Request) -> str:
        return "???" if "b0-0" in request.messages[1].text else analysis("r")

    reflect = Reflect(asker=asker(Scripted(half_broken)), minibatch_size=1)
    first, second = await findings(reflect, "00")
    assert "no usable answer" in first.problem
    assert first.proposals == ()
    assert second.problem == ""
    assert second.proposals


def finding(source: Source, number: int, *contents: str) -> Finding:
    task = f"{source}{number}"
    proposals = tuple(Proposal(Append(each), source, (task,)) for each in contents)
    return Finding(source=source, batch=0, number=number, tasks=(task,), proposals=proposals)


def unite_all(request: Request) -> str:
    rows = json.loads(request.messages[1].text.split("<proposals>")[1].split("</proposals>")[0])
    return json.dumps(
        {"edits": [{"op": "append", "content": "all", "from": [row["index"] for row in rows]}]}
    )


async def bundle(model: Scripted, *given: Finding, merge_batch: int = 2) -> ProposalSet:
    aggregate = Aggregate(asker=asker(model), merge_batch_size=merge_batch)
    return await aggregate(SKILL, given, Memory())


async def test_merging_unites_support_level_by_level_and_failure_wins_the_source() -> None:
    given = [finding("failure", n, f"f{n}") for n in range(3)] + [finding("success", 0, "s")]
    result = await bundle(Scripted(unite_all), *given)
    (only,) = result.proposals
    assert only.tasks == ("failure0", "failure1", "failure2", "success0")
    assert (only.support, only.source, only.level) == (4, "failure", 3)


async def test_a_single_finding_needs_no_question() -> None:
    def never(_: Request) -> str:
        raise AssertionError

    alone = finding("failure", 0, "a", "b")
    assert (await bundle(Scripted(never), alone)).proposals == alone.proposals
    assert (await bundle(Scripted(never))).proposals == ()


async def test_without_a_usable_merge_the_proposals_stand_side_by_side_and_it_is_said() -> None:
    given = finding("failure", 0, "a", "b"), finding("failure", 1, "b", "c")
    result = await bundle(Scripted(lambda _: "no"), *given)
    assert [each.edit for each in result.proposals] == [Append("a"), Append("b"), Append("c")]
    assert result.proposals[1].tasks == ("failure0", "failure1")
    assert len(result.problems) == 1


async def test_a_merge_may_not_invent_edits() -> None:
    asked: list[str] = []

    def inventive(request: Request) -> str:
        asked.append(request.messages[-1].text)
        sources = [[], [7], [0]][min(len(asked) - 1, 2)]
        return json.dumps({"edits": [{"op": "append", "content": "x", "from": sources}]})

    result = await bundle(
        Scripted(inventive), finding("failure", 0, "a"), finding("failure", 1, "b")
    )
    assert '"from"' in asked[1]
    assert result.problems


async def asked_about(
    nouns: str, size: int, fruitless: int = 0, *, sparing: bool = False
) -> list[tuple[str, ...]]:
    """Minibatches of failed tasks, one for each of these nouns, made by likeness."""

    async def attempts() -> AsyncIterator[Rollout]:
        for index, noun in enumerate(nouns.split()):
            asked = Trajectory((Message("user", f"Case {index}. Papers: {noun}."),), "")
            yield Rollout(task=f"{noun}{index}", skill="d", outcome=Score(0, 0), trajectory=asked)

    model = asker(Scripted(lambda _: analysis("r")))
    reflect = Reflect(asker=model, minibatch_size=size, minibatch_by="likeness")
    memory = Memory(fruitless=fruitless, sparing=sparing)
    found = await reflect(SKILL, [attempts()], memory, budget=1)
    return [each.tasks for each in found]


async def test_minibatches_by_likeness_hold_tasks_that_are_alike() -> None:
    assert await asked_about("bill lease bill lease bill", 3) == [
        ("bill0", "bill2", "bill4"),
        ("lease1", "lease3"),
    ]


async def test_after_steps_that_changed_nothing_minibatches_by_likeness_are_smaller() -> None:
    pairs = [("bill0", "bill2"), ("lease1", "lease3")]
    assert await asked_about("bill lease bill lease", 8, fruitless=1, sparing=True) == pairs
    assert len(await asked_about("bill lease bill lease", 8, fruitless=9, sparing=True)) == 4


async def test_after_steps_that_changed_nothing_minibatches_are_made_in_two_sizes() -> None:
    found = await asked_about("bill lease bill lease", 8, fruitless=1)
    pairs = [("bill0", "bill2"), ("lease1", "lease3")]
    assert found == [*pairs, ("bill0",), ("lease1",), ("bill2",), ("lease3",)]
    assert len(await asked_about("bill lease bill lease", 8, fruitless=9)) == 4
