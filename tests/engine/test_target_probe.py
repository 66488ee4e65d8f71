from __future__ import annotations

from dataclasses import replace

import pytest
from support import World, pupil

from skillopt.core.chat import Image, Message, Request, ToolCall
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.errors import ModelError, Unusable
from skillopt.model.scripted import Scripted

SKILL = Skill.parse("Answer briefly.\n")
CALL = ToolCall("1", "look", "{}")
GOLD = ("Port-au-Prince", "naïve café", "42")


def target_probe(*answers: str, model: Scripted | None = None, **data: object) -> LiveTargetProbe:
    target = model or Scripted(lambda _: "because")
    own = {"q": "What is it?", "answers": list(answers), **data}
    tasks = {"t": Task("t", "geography", own), **{e.id: e for e in World().env.tasks("train")}}
    return LiveTargetProbe(runner=World(target=target).runner(), target=target, tasks=tasks)


def attempt(feedback: str = "wrong", said: str = "Paris", task: str = "t") -> Rollout:
    talk = (
        Message("system", f"Be good.\n\n## Skill\n\n{SKILL.render()}"),
        Message("user", "What is it? Maria asks."),
        Message("tool", "a map"),
        Message("assistant", said),
    )
    return Rollout(
        task=task,
        skill=SKILL.digest,
        outcome=Score(0.0, 0.0, feedback),
        trajectory=Trajectory(talk, said),
    )


@pytest.mark.parametrize(
    "text",
    [
        "Why not Port-au-Prince?",
        "why not PORT AU PRINCE",
        "Is a naïve café better?",
        "naïve, café!",
    ],
)
def test_a_text_with_a_reference_in_it_is_found_however_it_is_written(text: str) -> None:
    assert target_probe(*GOLD).leaked_reference(attempt(), text) in GOLD


def test_a_short_reference_counts_once_the_grader_has_spoken_of_it() -> None:
    told = attempt("wrong answer: expected '42', got 'Paris'")
    assert target_probe(*GOLD).leaked_reference(told, "Is it 42?") == "42"
    assert target_probe(*GOLD).leaked_reference(told, "Is it 421?") == ""
    assert target_probe(*GOLD).leaked_reference(attempt(), "Use 42 columns.") == ""


def test_what_the_grader_quotes_counts_even_if_the_task_has_it_in_another_form() -> None:
    told = attempt("wrong answer: expected '1,234.50 | B7', got 'Paris'")
    assert target_probe("1234.5").leaked_reference(told, "Is it 1,234.50?") == "1,234.50"
    assert target_probe("1234.5").leaked_reference(told, "Say B7.") == "B7"


def test_what_the_target_has_seen_or_said_and_the_kind_of_task_are_no_secret() -> None:
    harmless = "Maria and Paris: which geography do you mean?"
    assert (
        target_probe("Paris", "Maria", kind="geography").leaked_reference(attempt(), harmless) == ""
    )


def test_every_text_and_number_in_private_data_counts_and_nothing_else() -> None:
    data: dict[str, object] = {
        "true": True,
        "none": None,
        "object": object(),
        "number": 1234,
        "share": 0.125,
        "pair": ("left one", "right one"),
        "set": {"inner one"},
        "lines": "first line\nsecond line|third line",
    }
    subject = target_probe(values=data)
    texts = {
        "True or None": "",
        "an object": "",
        "1234": "1234",
        "0.125": "0.125",
        "the left one": "left one",
        "the right one": "right one",
        "an inner one": "inner one",
        "second line": "second line",
        "the third line": "third line",
        "first line, second line": "first line",
        "first": "",
    }
    found = {text: subject.leaked_reference(attempt(), text) for text in texts}
    assert found == texts


def test_a_reference_in_a_script_without_blanks_is_found_within_other_words() -> None:
    subject = target_probe("東京都", "abc")
    assert subject.leaked_reference(attempt(), "それは東京都です") == "東京都"
    assert subject.leaked_reference(attempt(), "xabcx") == ""
    assert subject.leaked_reference(attempt(), "x abc") == "abc"


def test_private_data_of_two_characters_counts_only_once_it_was_spoken_of() -> None:
    subject = target_probe("ab", "abc")
    assert subject.leaked_reference(attempt(), "ab") == ""
    assert subject.leaked_reference(attempt("it is ab"), "ab") == "ab"
    assert subject.leaked_reference(attempt('"ab"'), "ab") == "ab"


async def test_other_attempts_are_made_with_the_skill_and_the_replicate_that_are_given() -> None:
    seen: list[tuple[str, int]] = []

    def target(request: Request) -> str:
        seen.append((request.messages[1].text, request.replicate))
        return "0"

    subject = target_probe(model=Scripted(target))
    one, other = await subject.try_out(SKILL, ["train-1", "train-2"])
    (third,) = await subject.try_out(SKILL, ["train-0"], 3)
    assert [each.task for each in (one, other, third)] == ["train-1", "train-2", "train-0"]
    assert sorted(seen) == [("0 + 1", 3), ("1 + 2", 0), ("2 + 3", 0)]


def test_nested_private_data_counts_too() -> None:
    deep = target_probe(meta={"notes": [{"hint": "Look at Haiti; then think"}]})
    assert deep.leaked_reference(attempt(), "Is it like 'then think'?") == "then think"


async def test_the_target_sees_its_skill_and_its_own_attempt_and_is_asked_once() -> None:
    seen: list[Request] = []

    def target(request: Request) -> str:
        seen.append(request)
        return " I was in a hurry. "

    subject = target_probe(*GOLD, model=Scripted(target))
    said = await subject.explain(attempt("expected 'Port-au-Prince'"), SKILL, "Why?")
    assert said == "I was in a hurry."
    talk = (
        Message("system", f"Be good.\n\n## Skill\n\n{SKILL.render()}"),
        Message("user", "What is it? Maria asks."),
        Message("user", "a map"),
        Message("assistant", "Paris"),
        Message("user", "Why?"),
    )
    assert seen == [Request(stage="probe", messages=talk)]
    assert "Port-au-Prince" not in "".join(each.text for each in talk)


async def test_pictures_are_shown_again_and_what_says_nothing_is_not() -> None:
    seen: list[Request] = []

    def target(request: Request) -> str:
        seen.append(request)
        return "ok"

    picture = (Image("image/png", "AA=="),)
    talk = (Message("user", "look", picture), Message("assistant", "", calls=(CALL,)))
    subject = target_probe(model=Scripted(target))
    tried = replace(attempt(), trajectory=Trajectory(talk, ""))
    await subject.explain(tried, SKILL, "Why?")
    await subject.explain(replace(attempt(), trajectory=None), SKILL, "Why?")
    asked = Message("user", "Why?")
    document = Message("system", SKILL.render())
    assert [request.messages for request in seen] == [
        (document, Message("user", "look", picture), asked),
        (document, asked),
    ]


async def test_a_skill_that_the_record_of_an_attempt_does_not_show_is_put_before_it() -> None:
    seen: list[Request] = []

    def target(request: Request) -> str:
        seen.append(request)
        return "ok"

    other = Skill.parse("Another document.\n")
    await target_probe(model=Scripted(target)).explain(attempt(), other, "Why?")
    assert seen[0].messages[0] == Message("system", other.render())


async def test_nothing_that_gives_the_reference_away_is_sent() -> None:
    def never(request: Request) -> str:
        raise AssertionError(request)

    subject = target_probe(*GOLD, model=Scripted(never))
    with pytest.raises(Unusable, match="only the grader knows"):
        await subject.explain(attempt(), SKILL, "Why not Port-au-Prince?")
    with pytest.raises(Unusable, match="only the grader knows"):
        await subject.retry(attempt(), SKILL, "Say naïve café.")


async def test_a_task_is_tried_again_with_one_more_instruction_and_kept() -> None:
    subject = target_probe(model=Scripted(pupil))
    failed = attempt(task="train-1")
    again = await subject.retry(failed, Skill.parse("You add numbers.\n"), "- Add carefully.")
    assert isinstance(again.outcome, Score)
    assert again.outcome.passed
    assert again.skill == Skill.parse("You add numbers.\n\n- Add carefully.\n").digest


async def test_a_target_that_does_not_answer_makes_a_probe_unusable_and_no_wrong_answer() -> None:
    def down(request: Request) -> str:
        raise ModelError(f"no answer to {request.stage}")

    subject = target_probe(model=Scripted(down))
    with pytest.raises(Unusable) as refused:
        await subject.explain(attempt(), SKILL, "Why?")
    assert str(refused.value) == "the target gave no explanation: no answer to probe"
    with pytest.raises(Unusable, match=r"^the re-run has no score: .*no answer to"):
        await subject.retry(attempt(task="train-1"), SKILL, "Think.")
