"""What the engine says reaches people by the names of Sleep, and without advice on others."""

from __future__ import annotations

from pathlib import Path

import pytest
from support_sleep import bench, office, places, simulated

from skillopt.app.reach import Reach
from skillopt.core.wording import counted
from skillopt.errors import AccessError, Pending
from skillopt_sleep.night import run_night_async
from skillopt_sleep.settings import Settings
from skillopt_sleep.wording import OURS, in_our_words, told_in_our_words


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "nothing could be learnt. What helps: `skillopt doctor CONFIG` sends such a request; a "
            "more capable model.optimizer; a larger model.optimizer_max_tokens; "
            "gradient.proposer=instruct for a small model. Then train into another env.out_root",
            "nothing could be learnt. What helps: a more capable optimizer_model",
        ),
        (
            "limits.tokens is reached: 50 allowed, 20 were spent. Finished work is saved; go on",
            "the share of max_tokens_per_night for this part of the night is used up: 50 allowed, "
            "20 were spent",
        ),
        (
            "there is no program 'claude' on PATH; install it, or set model.claude_code_exec_path",
            "there is no program 'claude' on PATH; install it, or set program_path",
        ),
        ("the key is wrong. Set model.outage_seconds. Try again.", "the key is wrong. Try again."),
        ("https://env.example/model.json is gone", "https://env.example/model.json is gone"),
        ("evaluation.gate paired: it is closed", "gate paired: it is closed"),
        (
            "3 of 8 failed, more than 10% (evaluation.max_failure_share), with (train.seed) 1",
            "3 of 8 failed, more than 10%, with (seed) 1",
        ),
    ],
)
def test_settings_have_the_names_of_sleep_and_advice_on_others_is_left_out(
    said: str, told: str
) -> None:
    assert in_our_words(said) == told


def test_every_name_that_is_given_is_a_setting_of_sleep() -> None:
    assert set(OURS.values()) <= set(Settings.model_fields)


def test_errors_are_told_in_our_words_and_questions_are_left_as_they_are() -> None:
    with pytest.raises(AccessError, match=r"^set base_url$"), told_in_our_words():
        raise AccessError("set model.base_url")
    with pytest.raises(Pending) as asked, told_in_our_words():
        raise Pending("folder", frozenset({"q"}))
    assert asked.value.questions == {"q"}


@pytest.mark.sandbox
async def test_a_program_that_is_missing_is_told_with_the_option_of_sleep(tmp_path: Path) -> None:
    project, home = places(tmp_path)
    settings = simulated(
        project, home, "", backend="claude", model="sonnet", program_path=tmp_path / "none"
    )
    settings = settings.model_copy(update={"optimizer_model": "", "base_url": ""})
    try:
        night = await run_night_async(settings, bench(home, office(30, 3, project)))
        told = night.verdict
    except AccessError as error:
        told = str(error)
    assert "program_path" in told
    assert "exec_path" not in told


def test_numbers_agree_with_their_nouns() -> None:
    assert (counted(1, "task"), counted(0, "task")) == ("1 task", "0 tasks")
    assert counted(1200, "token") == "1,200 tokens"
    assert "the one decision" in Reach("paired", 0.05, 1, 0, 5).closed
