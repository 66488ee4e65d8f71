"""A skill may be held to a size: what is too long shrinks first, or is not tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from support import Seen, World, analysis
from support_runs import Uncut, kill_and_resume, run_uncut

from skillopt.core.chat import Request
from skillopt.core.facts import Stepped
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.core.tokens import estimate
from skillopt.engine.loop import train
from skillopt.model.scripted import Scripted
from skillopt.optimizer.update import Compress
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library

LIMIT = 150
LONG = Skill.parse(f"---\nname: x\n---\n# Job\n\n{'- words ' * 40}\n").with_guidance("stay")


def compress(*replies: str, limit: int = 40) -> tuple[Compress, list[Request]]:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return replies[min(len(asked), len(replies)) - 1]

    asker = Asker(Scripted(answer), Library(), EventSink(MemoryLog(), Seen()))
    return Compress(asker=asker, limit=limit), asked


def said(text: str) -> str:
    return json.dumps({"compressed_skill": text})


async def test_the_body_is_shortened_and_the_rest_stays() -> None:
    shortener, asked = compress(said("# Job\n\n- few words"))
    skill, problem = await shortener.shorten(LONG)
    assert problem == ""
    assert skill.front == LONG.front
    assert skill.guidance == "stay"
    assert skill.body.strip() == "# Job\n\n- few words"
    text = asked[0].messages[1].text
    room = 40 - estimate(LONG.with_body("").render())
    assert f"<limit>{room}</limit>" in text
    assert "stay" not in text


async def test_an_answer_that_is_still_too_long_gets_one_more_chance() -> None:
    shortener, asked = compress(said("long " * 60), said("short"))
    skill, problem = await shortener.shorten(LONG)
    assert (skill.body.strip(), problem) == ("short", "")
    assert "tokens, and only" in asked[1].messages[-1].text


@pytest.mark.parametrize("reply", ["no", said(""), said("long " * 60)])
async def test_what_cannot_be_shortened_stays_as_it_is_and_says_why(reply: str) -> None:
    shortener, _ = compress(reply)
    skill, problem = await shortener.shorten(LONG)
    assert skill == LONG
    assert "no usable answer" in problem


async def test_a_limit_that_leaves_no_room_for_a_body_asks_nothing() -> None:
    shortener, asked = compress(said("x"), limit=10)
    skill, problem = await shortener.shorten(LONG)
    assert skill == LONG
    assert "protected regions alone" in problem
    assert asked == []


async def trained(reply: str) -> tuple[State, list[Stepped]]:
    """A run whose optimizer writes a rule that is right and far too long."""

    def answer(request: Request) -> str:
        if request.stage == "compress":
            return reply
        rule = "Add carefully. " + "And so on. " * 40
        return analysis(rule) if request.stage == "analyst" else "{}"

    record = MemoryLog()
    world = World(optimizer=Scripted(answer), record=record, final_test=False)
    run = world.run(shortener=compress(reply, limit=60)[0])
    state = await train(run, Skill.parse("# Sums\n"))
    return state, [event for event in record.events() if isinstance(event, Stepped)]


async def test_a_candidate_over_the_limit_is_tried_after_it_has_shrunk() -> None:
    state, steps = await trained(said("# Sums\n\n- Add carefully."))
    first = steps[0]
    assert first.action == "accept_new_best"
    assert (
        first.draft.leading.skill == state.best.skill == Skill.parse("# Sums\n\n- Add carefully.\n")
    )
    size = first.draft.leading.size
    assert size is not None
    assert (size.before, size.after, size.added, size.limit) == (2, 7, 5, 60)
    assert size.drafted > 60


async def test_a_candidate_that_stays_too_long_is_skipped_with_a_reason() -> None:
    state, steps = await trained(said("long " * 100))
    assert {step.action for step in steps} == {"skip_too_long"}
    assert state.best.skill == Skill.parse("# Sums\n")
    size = steps[0].draft.leading.size
    assert size is not None
    assert "no usable answer" in size.problem


@pytest.fixture(scope="module")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    """A run in which the initial skill has to lose words for every rule that it gains."""
    return run_uncut(tmp_path_factory.mktemp("size"), optimizer__max_skill_tokens=LIMIT)


def test_a_run_within_a_limit_ends_above_its_baseline_and_reports_growth(uncut: Uncut) -> None:
    out = uncut.job.out
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["test_delta_hard"] > 0.1
    assert estimate((out / "best_skill.md").read_text(encoding="utf-8")) <= LIMIT
    assert summary["token_summary"]["compress"]["calls"] > 0
    history = cast("list[dict[str, int]]", json.loads((out / "history.json").read_text()))
    grown = [step for step in history if "skill_tokens_after" in step]
    assert grown
    for step in grown:
        added = step["skill_tokens_after"] - step["skill_tokens_before"]
        assert step["skill_tokens_added"] == added
        assert step["max_skill_tokens"] == LIMIT


async def test_a_killed_run_shrinks_the_same_again(uncut: Uncut, tmp_path: Path) -> None:
    await kill_and_resume(1, uncut, tmp_path / "run")
