"""What gates are made from, and what they say: findings with their reasons, compared whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.skill import Skill
from skillopt.gates.compared import (
    DIRECTIVE_WORDS,
    Always,
    Density,
    Metric,
    MetricSettings,
    NoRegression,
    NoRegressionSettings,
    NotWorse,
    Strict,
)
from skillopt.gates.tested import LevelSettings, Paired, Sequential

Finding: TypeAlias = Literal["better", "not_better", "inconclusive"]

HARD = Metric()
STRICT = Strict(HARD)
CAREFUL = NoRegression(HARD, must_pass=frozenset({"t1"}))
LENIENT = NoRegression(HARD, max_broken=0.5)
PAIRED = Paired(HARD, alpha=0.05, looks=2)
MID = Paired(HARD, alpha=0.05, mid=True)
SEQUENTIAL = Sequential(HARD, alpha=0.05)


def measured(scores: Sequence[float], text: str = "a") -> Measured:
    skill = Skill.parse(text)
    marks = {f"t{n}": Score(each, each) for n, each in enumerate(scores)}
    evaluation = Evaluation(skill.digest, "val", marks)
    return Measured(skill, evaluation, HARD(evaluation), "x", 0)


@pytest.mark.parametrize(
    ("gate", "scores", "incumbent", "finding", "reason"),
    [
        (STRICT, "11111100", "00000000", "better", "0.7500 > 0.0000 on 8 tasks"),
        (STRICT, "0", "0", "not_better", "0.0000 <= 0.0000 on 1 task"),
        (STRICT, "", "", "not_better", "no task was scored for both skills"),
        (NotWorse(HARD), "10", "01", "better", "0.5000 >= 0.5000 on 2 tasks"),
        (NotWorse(HARD), "00", "01", "not_better", "0.0000 < 0.5000 on 2 tasks"),
        (CAREFUL, "1111", "0000", "better", "1.0000 > 0.0000 on 4 tasks, 0 broken"),
        (CAREFUL, "1000", "0000", "better", "0.2500 > 0.0000 on 4 tasks, 0 broken"),
        (CAREFUL, "0111", "1000", "not_better", "broke 1 of 4 tasks: t0"),
        (
            CAREFUL,
            "1011",
            "0100",
            "not_better",
            "broke t1, which must pass (evaluation.must_pass)",
        ),
        (
            CAREFUL,
            "1",
            "0",
            "inconclusive",
            "t1 must pass (evaluation.must_pass) but has no score",
        ),
        (LENIENT, "0111", "1100", "better", "0.7500 > 0.5000 on 4 tasks, 1 broken"),
        (
            LENIENT,
            "00000000",
            "11111111",
            "not_better",
            "broke 8 of 8 tasks: t0, t1, t2, t3, t4, ...",
        ),
        (PAIRED, "11111100", "00000000", "better", "6 better, 0 worse of 8, p 0.016 <= 0.025"),
        (PAIRED, "11000000", "00000000", "inconclusive", "2 better, 0 worse of 8, p 0.25 > 0.025"),
        (PAIRED, "01", "10", "not_better", "1 better, 1 worse of 2, p 0.75"),
        (MID, "11111100", "00000000", "better", "6 better, 0 worse of 8, p 0.0078 <= 0.05"),
        (MID, "11000000", "00000000", "inconclusive", "2 better, 0 worse of 8, p 0.12 > 0.05"),
        (
            SEQUENTIAL,
            "11111111",
            "00000000",
            "better",
            "7 better, 0 worse of 7, e-value 30.3 >= 20",
        ),
        (
            SEQUENTIAL,
            "11111100",
            "00000000",
            "inconclusive",
            "6 better, 0 worse of 8, e-value 17.4 < 20",
        ),
        (
            SEQUENTIAL,
            "00000000",
            "11111111",
            "not_better",
            "0 better, 7 worse of 7, e-value against it 30.3 >= 20",
        ),
        (SEQUENTIAL, "0000", "0000", "not_better", "0 better, 0 worse of 4, e-value 1"),
        (SEQUENTIAL, "", "", "not_better", "0 better, 0 worse of 0, e-value 1"),
    ],
)
def test_a_gate_says_what_it_found_and_why(
    gate: CompleteGate, scores: str, incumbent: str, finding: Finding, reason: str
) -> None:
    new = measured([*map(float, scores)], "b")
    found = gate.judge(new, measured([*map(float, incumbent)]), level=0.05)
    assert found == GateVerdict(finding, reason)


CANNOT = "the e-value cannot become high enough on the"


@pytest.mark.parametrize(
    ("gate", "scores", "incumbent", "finding", "reason"),
    [
        (STRICT, "0000", "00000000", None, ""),
        (STRICT, "0000", "1111", "not_better", "at most 0.0000 <= 1.0000, after 4 of 4 tasks"),
        (STRICT, "0000", "11111111", "not_better", "at most 0.5000 <= 1.0000, after 4 of 8 tasks"),
        (NotWorse(HARD), "1111", "11111111", None, ""),
        (
            NotWorse(HARD),
            "0111",
            "11111111",
            "not_better",
            "at most 0.8750 < 1.0000, after 4 of 8 tasks",
        ),
        (CAREFUL, "1011", "01000000", "not_better", "broke t1, after 4 of 8 tasks"),
        (CAREFUL, "1100", "01000000", None, ""),
        (LENIENT, "1011", "01000000", None, ""),
        (PAIRED, "1111", "00000000", None, ""),
        (
            PAIRED,
            "0000",
            "00000000",
            "inconclusive",
            "0 better, 0 worse of 4, p cannot fall below 0.062 > 0.025, 4 tasks left",
        ),
        (
            PAIRED,
            "0000",
            "11111111",
            "not_better",
            "0 better, 4 worse of 4, p cannot fall below 1 > 0.025, 4 tasks left",
        ),
        (
            SEQUENTIAL,
            "1000",
            "01010101",
            "inconclusive",
            f"1 better, 2 worse of 4, {CANNOT} 4 tasks left",
        ),
        (
            SEQUENTIAL,
            "0000000",
            "11111111",
            "not_better",
            "0 better, 7 worse of 7, e-value against it 30.3 >= 20, 1 task left",
        ),
        (
            SEQUENTIAL,
            "0000",
            "11111",
            "not_better",
            f"0 better, 4 worse of 4, {CANNOT} 1 task left",
        ),
    ],
)
def test_a_gate_that_gives_up_early_says_after_how_much_and_why(
    gate: CompleteGate, scores: str, incumbent: str, finding: Finding | None, reason: str
) -> None:
    new, old = measured([*map(float, scores)], "b"), measured([*map(float, incumbent)])
    left = [task for task in old.evaluation.scores if task not in new.evaluation.scores]
    found = gate.foresee(new, old, left, level=0.05)
    assert found == (None if finding is None else GateVerdict(finding, reason))


def test_settings_make_the_metric_that_they_name() -> None:
    assert MetricSettings().metric == Metric(0.0, None)
    assert MetricSettings(gate_metric="soft", gate_mixed_weight=0.3).metric == Metric(1.0)
    assert MetricSettings(gate_metric="mixed").metric == Metric(0.5)
    assert MetricSettings(gate_metric="mixed", gate_mixed_weight=0.3).metric == Metric(0.3)
    assert MetricSettings(use_semantic_density=True).metric == Metric(
        0.0, Density(0.05, DIRECTIVE_WORDS)
    )
    dense = MetricSettings(
        use_semantic_density=True, semantic_density_weight=0.2, leading_words=("do",)
    )
    assert dense.metric.density == Density(0.2, ("do",))
    names = [Metric(weight).name for weight in (0.0, 1.0, 0.3)]
    assert names == ["hard", "soft", "mixed 0.3"]


SOFT = Metric(1.0)


def test_settings_make_the_gate_that_they_describe() -> None:
    soft = MetricSettings(gate_metric="soft")
    assert Strict.from_settings(soft) == Strict(SOFT)
    assert Always.from_settings(soft) == Always(SOFT)
    assert Always(SOFT).forced
    assert NotWorse.from_settings(soft) == NotWorse(SOFT)
    careful = NoRegressionSettings(gate_metric="soft", must_pass=("a", "b"), max_broken=0.1)
    assert NoRegression.from_settings(careful) == NoRegression(
        SOFT, must_pass=frozenset({"a", "b"}), max_broken=0.1
    )
    assert NoRegression(SOFT, max_broken=0.1).for_shorter() == NoRegression(
        SOFT, max_broken=0.1, ties=True
    )


@pytest.mark.parametrize(
    ("inconclusive", "replicates", "most", "looks"),
    [("reject", 1, 3, 1), ("replicate", 1, 3, 3), ("replicate", 2, 3, 2), ("replicate", 4, 3, 1)],
)
def test_a_gate_that_tests_looks_once_and_again_after_each_replicate_that_may_be_bought(
    inconclusive: str, replicates: int, most: int, looks: int
) -> None:
    settings = LevelSettings(
        gate_metric="soft",
        alpha=0.1,
        inconclusive=inconclusive,
        replicates=replicates,
        max_replicates=most,
    )
    assert Paired.from_settings(settings) == Paired(SOFT, alpha=0.1, looks=looks)
    assert Sequential.from_settings(settings) == Sequential(
        SOFT, alpha=0.1, replicates=replicates, rounds=looks
    )


def test_the_paired_gate_is_exact_unless_it_is_told_to_be_right_on_average() -> None:
    assert not Paired.from_settings(LevelSettings()).mid
    assert Paired.from_settings(LevelSettings(paired_test="mid_p")).mid


def test_a_gate_that_tests_names_what_would_make_it_looser() -> None:
    assert list(Paired(HARD, looks=3).looser(0.05)) == [
        "evaluation.paired_test mid_p (5 wins)",
        "evaluation.inconclusive reject (5 wins)",
    ]
    assert list(Paired(HARD, mid=True).looser(0.05)) == []
