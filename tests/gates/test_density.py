from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.gates.compared import DIRECTIVE_WORDS, Density, Metric, Strict

WORDS = st.lists(st.sampled_from([*DIRECTIVE_WORDS, "MUST", "the", "answer", "is", "\n-", "#"]))


def measured(gate: Strict, document: str, *marks: float) -> Measured:
    skill = Skill.parse(document)
    scores = {f"t{index}": Score(mark, mark) for index, mark in enumerate(marks)}
    evaluation = Evaluation(skill.digest, "val", scores)
    return Measured(skill, evaluation, gate.value(skill, evaluation), "x", 0)


def test_the_bonus_is_the_weight_times_the_share_of_leading_words() -> None:
    skill = Skill.parse("- You MUST answer.\n- Never guess, always look.\n")
    assert Density(0.05)(skill) == pytest.approx(0.05 * 3 / 7)
    assert Density(0.05, ("guess",))(skill) == pytest.approx(0.05 / 7)


def test_front_matter_and_protected_regions_earn_and_cost_nothing() -> None:
    plain = Skill.parse("Never guess.\n")
    dressed = Skill.parse("---\nname: must\n---\nNever guess.\n").with_guidance("must must must")
    assert Density(0.05)(dressed) == Density(0.05)(plain)


@given(WORDS)
def test_the_bonus_lies_between_0_and_the_weight(words: list[str]) -> None:
    assert 0 <= Density(0.05)(Skill.parse(" ".join(words))) <= 0.05


def test_of_two_skills_with_the_same_score_the_denser_one_is_better() -> None:
    loose, dense = "Please do look at the units.", "Always give units."
    for gate, better in (
        (Strict(Metric()), False),
        (Strict(Metric(density=Density(0.05))), True),
    ):
        new, old = measured(gate, dense, 1, 0), measured(gate, loose, 1, 0)
        assert (gate.judge(new, old).finding == "better") is better
        assert (new.value > old.value) is better


def test_a_task_more_outweighs_any_bonus_of_the_default_weight_on_a_small_split() -> None:
    gate = Strict(Metric(density=Density(0.05)))
    old = measured(gate, "must always never", 1, 0, 0)
    assert gate.judge(measured(gate, "Look at the units.", 1, 1, 0), old).finding == "better"
