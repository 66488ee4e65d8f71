"""A gate needs one method; everything else that the training loop asks of it has a default."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from skillopt.core.abilities import complete_gate
from skillopt.core.events import GateVerdict, Measured
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.gates.compared import Metric, Strict

SKILL = Skill.parse("Add.")
EVALUATION = Evaluation(SKILL.digest, "val", {"a": Score(1, 0.5), "b": Score(0, 0.5)})
MEASURED = Measured(SKILL, EVALUATION, 0.5, "x", 0)
OTHER = replace(MEASURED, origin="y")


class OnlyJudges:
    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        return GateVerdict("better", f"{candidate.origin} {incumbent.origin} {level}")


class Ranks(OnlyJudges):
    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        return len(skill.body) + evaluation.hard


@dataclass
class Tests(OnlyJudges):
    __test__ = False
    alpha: float = 0.01

    def fewest_wins(self, level: float) -> int | None:
        return round(100 * level)


class Curtailing(OnlyJudges):
    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> list[str]:
        return [f"{task} of {skill}" for task in tasks if task in incumbent.scores]

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        return GateVerdict("not_better", f"{candidate.origin} {incumbent.origin} {left} {level}")


class Forced(OnlyJudges):
    forced = True


def by_soft(skill: Skill, evaluation: Evaluation) -> float:
    return evaluation.soft


def test_a_gate_that_only_judges_gets_the_plain_defaults() -> None:
    gate = complete_gate(OnlyJudges(), by_soft)
    assert gate.judge(MEASURED, OTHER, level=0.25) == GateVerdict("better", "x y 0.25")
    assert gate.value(SKILL, EVALUATION) == 0.5
    assert list(gate.order(["b", "a"], "digest", EVALUATION)) == ["b", "a"]
    assert gate.foresee(MEASURED, MEASURED, ["a"], level=0.0) is None
    assert (gate.alpha, gate.forced, gate.fewest_wins(0.05)) == (0.0, False, 0)


def test_an_ability_that_a_gate_has_is_used() -> None:
    assert complete_gate(Ranks(), by_soft).value(SKILL, EVALUATION) == 4.5
    tested = complete_gate(Tests(), by_soft)
    assert (tested.alpha, tested.fewest_wins(0.05)) == (0.01, 5)
    assert complete_gate(Forced(), by_soft).forced
    curtailing = complete_gate(Curtailing(), by_soft)
    assert curtailing.order(["b", "c", "a"], "digest", EVALUATION) == ["b of digest", "a of digest"]
    foreseen = curtailing.foresee(MEASURED, OTHER, ["a"], level=0.25)
    assert foreseen == GateVerdict("not_better", "x y ['a'] 0.25")


def test_a_gate_with_all_abilities_is_used_as_it_is() -> None:
    gate = Strict(Metric())
    assert complete_gate(gate, by_soft) is gate
