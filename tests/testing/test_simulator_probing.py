from __future__ import annotations

import json

from skillopt.core.chat import Message
from skillopt.core.proposal import Probe, Turn
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.optimizer.sections import (
    attempt_section,
    budget_section,
    probe_section,
    skill_section,
    turns_section,
)
from skillopt.testing.simulator import SimulatedOptimizer, SimulatedTarget, make_items, stated_skill

WISE = SimulatedOptimizer(useless=0, harmful=0, broken=0)
ITEMS = {each["kind"]: each for each in make_items(100, 4)}
ROOM = ITEMS["room code"]
EMPTY = Skill.parse("# Office clerk\n")
STATED = Skill.parse(stated_skill())


def answered(item: dict[str, str], skill: Skill = EMPTY) -> Rollout:
    answer = SimulatedTarget(noise=0).answer(f"## Skill\n{skill.render()}", item["input"])
    feedback = f"wrong answer: expected '{item['answer']}', got '{answer}'"
    said = (Message("user", item["input"]), Message("assistant", answer))
    right = float(answer == item["answer"])
    return Rollout(
        task=item["id"],
        skill="",
        outcome=Score(right, right, "correct" if right else feedback),
        trajectory=Trajectory(said, answer),
    )


def next_move(rollout: Rollout, *turns: Turn, left: int = 3, repairing: bool = False) -> list[str]:
    user = "\n\n".join(
        [
            skill_section(EMPTY),
            attempt_section(rollout),
            turns_section(turns),
            f"<turns_left>{left}</turns_left>",
        ]
    )
    reply = json.loads(WISE.answer("probe", '"probe"', user, repairing=repairing))
    return [reply["probe"], reply["text"]]


def explained(skill: Skill, answer: str) -> str:
    return SimulatedTarget().explain(f"## Skill\n{skill.render()}", ROOM["input"], answer)


def test_a_target_says_which_rules_it_had_and_not_what_would_have_been_right() -> None:
    assert "no rule on the room code" in explained(EMPTY, "anything")
    assert "followed the rule" in explained(STATED, ROOM["answer"])
    assert "overlooked" in explained(STATED, "anything")
    assert ROOM["answer"] not in explained(STATED, "anything")


def test_the_optimizer_asks_tests_the_form_that_fits_and_concludes() -> None:
    failed = answered(ROOM)
    asked = Turn("ask", "?", "I found no rule on the room code.")
    assert next_move(failed)[0] == "ask"
    kind, rule = next_move(failed, asked)
    assert kind == "rerun"
    again = answered(ROOM, Skill.parse(f"# Office clerk\n\n{rule}\n"))
    assert isinstance(again.outcome, Score)
    assert again.outcome.passed
    tested = Turn("rerun", rule, ROOM["answer"], score=again.outcome)
    kind, text = next_move(failed, asked, tested)
    assert kind == "conclude"
    assert rule.removeprefix("- ") in text


def test_a_lapse_is_recognised_by_what_the_target_says() -> None:
    slipped = Turn("ask", "?", explained(STATED, "anything"))
    kind, text = next_move(answered(ROOM), slipped)
    assert kind == "conclude"
    assert "not followed" in text


def test_without_turns_or_when_asked_again_it_concludes() -> None:
    assert next_move(answered(ROOM), left=0)[0] == "conclude"
    assert next_move(answered(ROOM), repairing=True)[0] == "conclude"


def test_an_analyst_puts_first_what_a_re_run_has_confirmed() -> None:
    items = [ITEMS["room code"], ITEMS["start time"]]

    def first(confirmed: dict[str, str]) -> str:
        rollout = answered(confirmed)
        rule = next_move(rollout, Turn("ask", "?", "none"))[1]
        score = Score(1.0, 1.0, "correct")
        turn = Turn("rerun", rule, confirmed["answer"], score=score)
        probe = Probe(confirmed["id"], (turn,), next_move(rollout, turn)[1])
        shown = [attempt_section(answered(each)) for each in items]
        parts = [skill_section(EMPTY), budget_section(1), *shown, probe_section(probe)]
        reply = json.loads(WISE.answer("reflection", "", "\n\n".join(parts)))
        return reply["edits"][0]["why"]

    assert "room code" in first(ITEMS["room code"])
    assert "start time" in first(ITEMS["start time"])
