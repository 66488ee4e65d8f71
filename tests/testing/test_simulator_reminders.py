from __future__ import annotations

import json
from collections.abc import Sequence

from skillopt.core.chat import Message
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.optimizer.sections import attempt_section, notes_section, skill_section
from skillopt.prompts.library import Library
from skillopt.testing.simulator import SimulatedOptimizer, SimulatedTarget, make_items, stated_skill
from skillopt.testing.simulator.office import FIELDS
from skillopt.testing.simulator.reminders import compact, labels_in

PROMPTS = Library()
WISE = SimulatedOptimizer(useless=0, harmful=0, broken=0)
ANALYST = PROMPTS.text("analyst_error") + PROMPTS.text("lapses_failure")
STATED = Skill.parse(stated_skill())


def reminders(skill: Skill) -> list[str]:
    """What an analyst reminds of who sees room codes as they are written without any rule."""
    rooms = [each for each in make_items(200, 4) if each["kind"] == "room code"][:2]
    shown = "\n\n".join(
        [skill_section(skill), *(attempt_section(_ruleless(each)) for each in rooms)]
    )
    return json.loads(WISE.answer("reflection", ANALYST, shown))["appendix_notes"]


def _ruleless(item: dict[str, str]) -> Rollout:
    answer = SimulatedTarget(noise=0).answer("", item["input"])
    said = (Message("user", item["input"]), Message("assistant", answer))
    feedback = f"wrong answer: expected '{item['answer']}', got '{answer}'"
    return Rollout(
        task=item["id"],
        skill="",
        outcome=Score(0.0, 0.0, feedback),
        trajectory=Trajectory(said, answer),
    )


def forgetful(skill: Skill) -> float:
    """How often a target that forgets half of its rules is right."""
    target = SimulatedTarget(noise=0.5)
    items = make_items(60, 7)
    system = f"## Skill\n\n{skill.render()}"
    return sum(target.answer(system, each["input"]) == each["answer"] for each in items) / 60


def test_a_rule_that_the_skill_states_and_that_was_not_used_becomes_a_reminder() -> None:
    (note,) = reminders(STATED)
    assert labels_in(note) == ["room code"]
    assert reminders(STATED.with_notes([note])) == []


def test_a_rule_that_the_skill_lacks_gives_no_reminder() -> None:
    assert reminders(Skill.parse("# Office clerk\n")) == []


def test_a_reminder_keeps_its_field_from_being_forgotten() -> None:
    assert forgetful(STATED) < 0.7
    labels = [each.label for each in FIELDS]
    assert forgetful(STATED.with_notes(compact([f"the {each}" for each in labels]))) == 1.0


def test_a_compacted_list_is_shorter_and_reminds_of_the_same_fields() -> None:
    def once_more(notes: Sequence[str]) -> list[str]:
        question = PROMPTS.text("appendix_consolidate")
        reply = WISE.answer("consolidation", question, notes_section(notes))
        return json.loads(reply)["consolidated_notes"]

    notes = [f"Mind the {each.label}." for each in FIELDS]
    while len(notes) > 1:
        shorter = once_more(notes)
        assert len(shorter) < len(notes)
        assert labels_in("\n".join(shorter)) == labels_in("\n".join(notes))
        notes = shorter
