from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.analysis.calibration import Calibration, Terms, calibrated
from skillopt.core.rollout import Evaluation, Score
from skillopt.gates.compared import Metric
from skillopt.gates.statistics import sign_flip

TERMS = Terms(alpha=0.05, decisions=1)


def rounds(*scores: list[float]) -> Evaluation:
    found = [{f"t{n}": Score(each, each) for n, each in enumerate(row)} for row in scores]
    return Evaluation.over("s", "val", found, {})


def noisy(tasks: int = 40, flipping: float = 0.2, noise: float = 0.1) -> Calibration:
    return Calibration(tasks=tasks, replicates=2, score=0.5, flipping=flipping, noise=noise)


def test_noise_is_what_differs_between_measurements_of_the_same_skill() -> None:
    found = calibrated(rounds([1, 0, 1, 0], [1, 1, 1, 0]), Metric())
    assert found is not None
    assert (found.tasks, found.replicates, found.flipping) == (4, 2, 0.25)
    assert found.noise == pytest.approx(0.5 / 4)
    assert found.floor == pytest.approx(0.25)
    assert found.score == pytest.approx(0.625)


def test_one_measurement_tells_nothing_about_noise() -> None:
    assert calibrated(rounds([1, 0, 1]), Metric()) is None


def test_a_steady_target_leaves_nothing_to_luck() -> None:
    found = calibrated(rounds([1, 0] * 20, [1, 0] * 20), Metric())
    assert found is not None
    assert (found.floor, found.luck) == (0.0, 0.0)
    advice = found.advice(TERMS)
    assert (advice.gate, advice.replicates) == ("strict", 1)


def test_the_luck_of_a_strict_gate_is_that_of_a_coin_without_ties() -> None:
    """Checked by drawing: 40 tasks, each 20 % likely to come out differently."""
    rng = random.Random(1)

    def wins() -> bool:
        changes = [rng.choice((-1, 1)) for _ in range(40) if rng.random() < 0.2]
        return sum(changes) > 0

    drawn = sum(wins() for _ in range(4000)) / 4000
    assert noisy().luck == pytest.approx(drawn, abs=0.03)


@given(st.integers(20, 400), st.floats(0, 0.25), st.integers(1, 4))
def test_more_tasks_and_more_replicates_never_see_less(n: int, noise: float, count: int) -> None:
    one = noisy(n, 0.2, noise).smallest(TERMS, count)
    more = noisy(n, 0.2, noise).smallest(TERMS, count + 1)
    larger = noisy(2 * n, 0.2, noise).smallest(TERMS, count)
    assert one is not None
    assert more is not None
    assert larger is not None
    assert more <= one + 1e-9
    assert larger <= one + 1e-9


def test_the_smallest_gain_is_seen_about_as_surely_as_stated() -> None:
    """Checked by drawing: a candidate that really repairs so many tasks of a noisy target."""
    n, slip = 100, 0.1
    found = noisy(n, 2 * slip * (1 - slip), slip * (1 - slip))
    gain = found.smallest(TERMS)
    assert gain is not None
    rng = random.Random(2)

    def attempt(knows: bool) -> float:
        return float(knows != (rng.random() < slip))

    def seen() -> bool:
        changes: list[float] = []
        for _ in range(n):
            knows = rng.random() < 0.5
            # A slip hides a part of the gain, so more must be repaired than is measured.
            learns = not knows and rng.random() < 2 * gain / (1 - 2 * slip)
            changes.append(attempt(knows or learns) - attempt(knows))
        return sign_flip(changes) <= TERMS.level

    assert sum(seen() for _ in range(300)) / 300 == pytest.approx(0.8, abs=0.12)


def test_too_few_tasks_see_nothing_at_all() -> None:
    strict = Terms(alpha=0.05, decisions=50)
    assert strict.fewest == 10
    assert noisy(8).smallest(strict) is None


def test_advice_names_a_set_that_sees_the_gain() -> None:
    terms = Terms(alpha=0.1, decisions=8, effect=0.1)
    advice = noisy().advice(terms)
    assert advice.gate == "paired"
    assert advice.val > 40
    gain = noisy(advice.val).smallest(terms, advice.replicates)
    assert gain == pytest.approx(0.1, abs=0.005)
    assert noisy(400).advice(terms).gate == "sequential"
