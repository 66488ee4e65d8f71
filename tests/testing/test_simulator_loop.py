from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast

import pytest

from skillopt.core.chat import Message
from skillopt.core.edits import apply_edits
from skillopt.core.proposal import Proposal
from skillopt.core.rollout import Rollout, Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.optimizer.replies import EDITS
from skillopt.optimizer.sections import (
    attempt_section,
    budget_section,
    proposals_section,
    skill_section,
)
from skillopt.optimizer.selection import Ranking
from skillopt.optimizer.update import edits_in
from skillopt.prompts.jsonish import read_object
from skillopt.testing.simulator import (
    SimulatedOptimizer,
    SimulatedTarget,
    initial_skill,
    make_items,
)

Item = dict[str, str]


@dataclass(frozen=True, slots=True)
class Climb:
    """The method in a few lines, with the simulated models called directly."""

    target: SimulatedTarget
    optimizer: SimulatedOptimizer

    def attempt(self, item: Item, skill: Skill) -> Rollout:
        answer = self.target.answer(f"## Skill\n\n{skill.render()}", item["input"])
        right = answer == item["answer"]
        word = "correct" if right else f"wrong answer: expected '{item['answer']}', got '{answer}'"
        said = (Message("user", item["input"]), Message("assistant", answer))
        score = Score(float(right), float(right), word)
        return Rollout(
            task=item["id"], skill="", outcome=score, trajectory=Trajectory(said, answer)
        )

    def measure(self, items: list[Item], skill: Skill) -> float:
        outcomes = [self.attempt(item, skill).outcome for item in items]
        return sum(cast("Score", outcome).hard for outcome in outcomes) / len(items)

    def findings(self, batch: list[Item], skill: Skill) -> list[Proposal]:
        rollouts = [self.attempt(item, skill) for item in batch]
        failed = [each for each in rollouts if not cast("Score", each.outcome).passed]
        passed = [each for each in rollouts if cast("Score", each.outcome).passed]
        found: list[Proposal] = []
        for source, group in (("failure", failed), ("success", passed)):
            for at in range(0, len(group), 8):
                shown = [attempt_section(each) for each in group[at : at + 8]]
                user = "\n\n".join([skill_section(skill), budget_section(4), *shown])
                text = self.optimizer.answer("reflection", source, user, repairing=True)
                reply = EDITS.analysis.model_validate(json.loads(text))
                found += [
                    Proposal(
                        each.change(),
                        "failure" if source == "failure" else "success",
                        tuple(each.tasks),
                    )
                    for each in reply.items
                ]
        return found

    def step(self, batch: list[Item], skill: Skill, budget: int) -> Skill:
        found = self.findings(batch, skill)
        text = self.optimizer.answer("merge", "", proposals_section(found), repairing=True)
        merged = [
            Proposal(
                each.change(),
                found[each.sources[0]].source,
                tuple(sorted({task for at in each.sources for task in found[at].tasks})),
            )
            for each in EDITS.merge.model_validate(json.loads(text)).items
        ]
        user = f"{budget_section(budget)}\n{proposals_section(merged)}"
        text = self.optimizer.answer("ranking", "", user, repairing=True)
        ranking = Ranking.model_validate(json.loads(text))
        chosen = edits_in(merged[at] for at in ranking.selected_indices)
        return apply_edits(skill, chosen).skill

    def train(self, train: list[Item], val: list[Item]) -> tuple[list[float], Skill]:
        skill = Skill.parse(initial_skill())
        scores = [self.measure(val, skill)]
        budgets = (4, 4, 3, 3, 3, 2, 2, 2)
        for number, budget in enumerate(budgets):
            batch = train[number % 2 :: 2]
            candidate = self.step(batch, skill, budget)
            score = self.measure(val, candidate)
            if score > scores[-1]:
                skill = candidate
            scores.append(max(score, scores[-1]))
        return scores, skill


@pytest.mark.parametrize("seed", range(6))
def test_a_plain_training_loop_climbs_from_below_03_to_above_085(seed: int) -> None:
    items = make_items(180, seed)
    train, val, test = items[:80], items[80:120], items[120:]
    climb = Climb(SimulatedTarget(seed), SimulatedOptimizer(seed))
    scores, skill = climb.train(train, val)
    assert scores[0] < 0.3
    assert scores[-1] > 0.85
    assert climb.measure(test, skill) > 0.8


def test_broken_replies_are_of_kinds_that_a_reader_of_model_json_meets() -> None:
    texts = [SimulatedOptimizer(seed, broken=1).answer("ranking", "", "") for seed in range(20)]
    readable = [read_object(text, {"selected_indices"}) is not None for text in texts]
    assert any(readable)
    assert not all(text.startswith("{") for text in texts)
