from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support_transcripts import NOW, START, Story, Turn, settings_in, write_claude

from skillopt.core.chat import Reply, Request
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.errors import BudgetSpent, Pending
from skillopt.model.budget import Budget, Limits, Meter
from skillopt.model.scripted import Scripted
from skillopt.model.wrappers import Metered
from skillopt_sleep.harvest import harvest
from skillopt_sleep.model_mining import STAGE, MiningResult, mine_with_model
from skillopt_sleep.values import Check, Reference, Session

WORDS = [
    "cache",
    "parser",
    "upload",
    "invoice",
    "schema",
    "index",
    "queue",
    "router",
    "login",
    "menu",
]


def sessions(folder: Path, *stories: Sequence[Turn]) -> tuple[Session, ...]:
    for number, turns in enumerate(stories):
        write_claude(folder / "claude", Story(id=f"s{number}", turns=turns))
    return harvest(settings_in(folder), None, NOW).sessions


async def mined(
    folder: Path, found: Sequence[Session], answer: Callable[[Request], str], **more: object
) -> MiningResult:
    sink = EventSink(MemoryLog(), lambda _: None)
    return await mine_with_model(found, settings_in(folder, **more), Scripted(answer), sink)


def tasks(*rows: Mapping[str, object]) -> Callable[[Request], str]:
    return lambda _: f"Here they are:\n```json\n{json.dumps({'tasks': rows})}\n```"


NOTES = (Turn(user="Write the notes of today", shell="ls"), Turn(user="No, wrong: dates in UTC"))


async def test_a_model_generalises_a_task_and_says_how_to_check_it(tmp_path: Path) -> None:
    found = sessions(tmp_path, NOTES)
    row = {
        "asks": [1],
        "intent": "Write notes of a day",
        "checks": [{"op": "contains", "arg": "UTC"}],
    }
    (task,) = (await mined(tmp_path, found, tasks(row))).tasks
    assert task.intent == "Write notes of a day"
    assert task.id.startswith("llm_")
    assert task.reference == Reference(kind="rule", checks=(Check("contains", "UTC"),))
    assert (task.sessions, task.pain, task.outcome) == (("s0",), 1.0, "fail")


async def test_asks_go_into_few_questions_with_what_the_user_said(tmp_path: Path) -> None:
    stories = [(Turn(user=f"Explain the {word} of {word}s"), Turn(user="ok")) for word in WORDS]
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return '{"tasks": []}'

    result = await mined(tmp_path, sessions(tmp_path, *stories, NOTES), answer)
    assert result == MiningResult(())
    assert [request.stage for request in asked] == [STAGE, STAGE]
    text = "".join(request.messages[1].text for request in asked)
    assert text.count("<ask n=") == 11
    assert "<user>No, wrong: dates in UTC</user>" in text
    assert "<tools>Bash</tools>" in text


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ({"answer": "42", "rubric": "x y z"}, Reference(kind="exact", text="42")),
        ({"rubric": "Dates are UTC."}, Reference(kind="rubric", text="Dates are UTC.")),
        (
            {"checks": [{"op": "max_chars", "arg": 9}], "rubric": "Is short."},
            Reference(kind="rubric", text="Is short."),
        ),
        (
            {"checks": [{"op": "tool_called", "arg": "/etc/passwd"}], "rubric": "It ran."},
            Reference(kind="rubric", text="It ran."),
        ),
        (
            {"checks": [{"op": "tool_called", "arg": "Unused"}, {"op": "contains", "arg": "a"}]},
            Reference(kind="rule", checks=(Check("contains", "a"),)),
        ),
        (
            {"checks": [{"op": "tool_called", "arg": "Bash"}]},
            Reference(kind="rule", checks=(Check("tool_called", "Bash"),)),
        ),
    ],
)
async def test_only_sound_references_are_taken(
    row: dict[str, object], reference: Reference, tmp_path: Path
) -> None:
    found = sessions(tmp_path, NOTES)
    whole = {"asks": [1], "intent": "Write notes of a day", **row}
    (task,) = (await mined(tmp_path, found, tasks(whole))).tasks
    assert task.reference == reference


async def test_a_test_that_was_run_says_more_than_the_model(tmp_path: Path) -> None:
    found = sessions(
        tmp_path, (Turn(user="Fix the parser of dates", shell="pytest -q"), Turn(user="ok"))
    )
    row = {"asks": [1], "intent": "Fix the parser", "rubric": "It is fixed."}
    (task,) = (await mined(tmp_path, found, tasks(row), replay="agent")).tasks
    assert task.reference == Reference(kind="command", text="pytest -q")
    # A plain model cannot run it.
    (task,) = (await mined(tmp_path, found, tasks(row))).tasks
    assert task.reference == Reference(kind="rubric", text="It is fixed.")


async def test_an_unusable_answer_is_asked_for_again_and_then_done_without(tmp_path: Path) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return json.dumps({"tasks": [{"asks": [7], "intent": "Write notes", "rubric": "x"}]})

    result = await mined(tmp_path, sessions(tmp_path, NOTES), answer)
    assert len(asked) == 2
    assert "there is no ask 7; their numbers are 1 to 1" in asked[1].messages[-1].text
    assert result.unusable == 1
    assert [task.reference.kind for task in result.tasks] == ["rubric"]


async def test_asks_that_the_model_joins_are_one_task(tmp_path: Path) -> None:
    found = sessions(tmp_path, NOTES, (Turn(user="Summarise what was done"), Turn(user="ok")))
    found = (found[0], replace(found[1], started=START, ended=NOW))
    row = {"asks": [1, 2], "intent": "Summarise a day", "rubric": "Dates are UTC."}
    (task,) = (await mined(tmp_path, found, tasks(row))).tasks
    assert (task.frequency, task.pain, len(task.sessions)) == (2, 0.5, 2)


async def test_calls_are_counted_and_a_budget_that_is_spent_ends_it(tmp_path: Path) -> None:
    stories = [(Turn(user=f"Explain the {word} of {word}s"), Turn(user="ok")) for word in WORDS]
    budget = Budget(Meter(), Limits(calls=1))
    model = Metered(Scripted(lambda _: '{"tasks": []}'), role="optimizer", budget=budget)
    sink = EventSink(MemoryLog(), lambda _: None)
    with pytest.raises(BudgetSpent):
        await mine_with_model(sessions(tmp_path, *stories), settings_in(tmp_path), model, sink)
    assert budget.meter.total.calls == 1


class ByHand:
    """A model whose answers are yet to be written."""

    fingerprint = "by hand"

    async def complete(self, request: Request) -> Reply:
        raise Pending("answers", frozenset([request.messages[1].text]))


async def test_somebody_who_answers_by_hand_gets_all_questions_in_one_round(tmp_path: Path) -> None:
    stories = [(Turn(user=f"Explain the {word} of {word}s"), Turn(user="ok")) for word in WORDS]
    sink = EventSink(MemoryLog(), lambda _: None)
    with pytest.raises(Pending) as caught:
        await mine_with_model(sessions(tmp_path, *stories), settings_in(tmp_path), ByHand(), sink)
    assert len(caught.value.questions) == 2
