from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from support import Seen

from skillopt.core.chat import Message, Request
from skillopt.core.edits import Append
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Proposal
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate
from skillopt.model.scripted import Scripted
from skillopt.optimizer.explore import CALLS, Explore
from skillopt.prompts.ask import Asker
from skillopt.prompts.digest import Digest
from skillopt.prompts.library import Library

SKILL = Skill.parse("Body.\n")
LIST = {"calls": [{"tool": "list"}]}
READ = {"calls": [{"tool": "read", "file": "001-failed-default.md"}]}


def edits(*tasks: str, content: str = "- rule") -> dict[str, object]:
    edit = {"op": "append", "content": content, "why": "seen", "tasks": list(tasks)}
    return {"reasoning": "r", "patterns": [{"name": "p", "tasks": list(tasks)}], "edits": [edit]}


async def stream(marks: str, text: str = "T") -> AsyncIterator[Rollout]:
    for index, mark in enumerate(marks):
        said = (Message("user", f"{text} {index}"), Message("assistant", "A"))
        yield Rollout(
            task=f"t{index}",
            skill="d",
            outcome=Score(float(mark), 0.5, f"word {index}"),
            trajectory=Trajectory(said, "A"),
        )


def playing(*replies: object) -> tuple[Scripted, list[Request]]:
    """A model that says one thing after the other, and the requests it got."""
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        reply = replies[min(len(asked), len(replies)) - 1]
        return reply if isinstance(reply, str) else json.dumps(reply)

    return Scripted(answer), asked


def explorer(model: Scripted, turns: int = 6, digest: Digest | None = None) -> Explore:
    sink = EventSink(MemoryLog(), Seen())
    limits = Digest() if digest is None else digest
    return Explore(asker=Asker(model, Library(), sink, limits), explore_turns=turns)


async def explore(explorer: Explore, *batches: str, budget: int = 4) -> tuple[Finding, ...]:
    return await explorer(SKILL, [stream(marks) for marks in batches], Memory(), budget=budget)


async def test_an_explorer_looks_around_and_concludes_with_evidence() -> None:
    model, asked = playing(LIST, READ, edits("t1", "t99"))
    (found,) = await explore(explorer(model), "101")
    (proposal,) = found.proposals
    assert proposal == Proposal(Append("- rule"), "failure", ("t1",), "seen", by="explore")
    assert found.patterns[0].tasks == ("t1",)
    assert found.trail == ("list", "read 001-failed-default.md")
    assert "task t1" in asked[1].messages[-1].text
    assert "<feedback>\nword 1\n</feedback>" in asked[2].messages[-1].text


async def test_what_was_said_before_stays_the_same_from_turn_to_turn() -> None:
    model, asked = playing(LIST, READ, LIST, edits("t0"))
    await explore(explorer(model), "00")
    for before, after in pairwise(asked):
        assert after.messages[: len(before.messages)] == before.messages


async def test_tasks_that_do_not_exist_are_dropped_and_the_opened_ones_stand_in() -> None:
    model, _ = playing(READ, edits("invented"))
    (found,) = await explore(explorer(model), "00")
    assert found.proposals[0].tasks == ("t0",)
    model, _ = playing(edits("invented"))
    (found,) = await explore(explorer(model), "00")
    assert found.proposals == ()


async def test_a_file_may_be_named_instead_of_its_task() -> None:
    model, _ = playing(edits("002-failed-default.md"))
    (found,) = await explore(explorer(model), "00")
    assert found.proposals[0].tasks == ("t1",)


async def test_edits_that_only_passed_attempts_speak_for_count_as_successes() -> None:
    model, _ = playing(edits("t0"))
    failure, success = await explore(explorer(model), "10")
    assert failure.proposals == ()
    assert (success.source, success.proposals[0].source) == ("success", "success")


async def test_a_learning_rate_of_0_asks_nothing_and_the_budget_bounds_the_edits() -> None:
    model, asked = playing({"edits": [{"op": "append", "content": c, "tasks": "t0"} for c in "ab"]})
    assert await explore(explorer(model), "00", budget=0) == ()
    assert asked == []
    (found,) = await explore(explorer(model), "00", budget=1)
    assert [each.edit for each in found.proposals] == [Append("a")]


async def test_all_micro_batches_lie_in_one_workspace() -> None:
    model, asked = playing(LIST, edits("t0"))
    await explore(explorer(model), "0", "0")
    assert asked[1].messages[-1].text.count("-failed-") == 2


async def test_the_last_turn_must_conclude_and_is_asked_once_more_to() -> None:
    model, asked = playing(LIST, LIST, edits("t0"))
    (found,) = await explore(explorer(model, turns=2), "0")
    assert found.proposals
    assert "This is the last one" in asked[1].messages[-1].text
    assert "no turns are left" in asked[2].messages[-1].text
    model, asked = playing(LIST)
    (found,) = await explore(explorer(model, turns=2), "0")
    assert "no turns are left" in found.problem
    assert len(asked) == 3


async def test_a_broken_turn_is_told_back_once_then_it_must_conclude_from_what_was_seen() -> None:
    model, asked = playing(READ, "hm", "hm", edits("t0"))
    (found,) = await explore(explorer(model), "0")
    assert found.proposals[0].tasks == ("t0",)
    assert "cannot be used" in asked[2].messages[-1].text
    assert "<turns_left>1</turns_left>" in asked[3].messages[-1].text


async def test_a_model_that_never_says_anything_usable_leaves_a_problem_and_no_edits() -> None:
    model, asked = playing("hm")
    (found,) = await explore(explorer(model), "0")
    assert "no usable answer" in found.problem
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"tool": "read", "file": "../events.jsonl"}, "There is no file '../events.jsonl'"),
        ({"tool": "read", "file": "001-failed-default.md", "line": 99}, "no line 99"),
        ({"tool": "grep", "text": "nowhere"}, "No line holds 'nowhere'"),
        ({"tool": "search", "text": "word"}, "1 line found"),
        ({"tool": "read_file", "file": "001-failed-default.md", "line": None}, "lines 1 to"),
    ],
)
async def test_a_call_that_finds_nothing_is_answered_in_words(
    call: dict[str, object], told: str
) -> None:
    model, asked = playing({"calls": [call]}, edits("t0"))
    await explore(explorer(model), "0")
    assert told in asked[1].messages[-1].text


async def test_a_turn_makes_a_bounded_number_of_calls() -> None:
    model, asked = playing({"calls": [{"tool": "list"}] * 20}, edits("t0"))
    await explore(explorer(model), "0")
    assert asked[1].messages[-1].text.count("<result") == CALLS
    assert f"Only the first {CALLS} calls" in asked[1].messages[-1].text


async def test_what_may_be_seen_in_all_is_bounded_and_then_it_must_conclude() -> None:
    asked: list[Request] = []

    def curious(request: Request) -> str:
        asked.append(request)
        last = "This is the last one" in request.messages[-1].text
        return json.dumps(edits("t0") if last else READ)

    tight = explorer(Scripted(curious), turns=50, digest=Digest(attempt=300, question=900))
    (found,) = await tight(SKILL, [stream("0", text="word " * 2000)], Memory(), budget=2)
    assert found.proposals
    assert 3 <= len(asked) <= 6
    shown = [each.text for each in asked[-1].messages[2:] if each.role == "user"]
    assert sum(map(estimate, shown)) < 900 + 30 * len(shown)
