from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.engine.candidate_evaluation import alpha_share

FIRST = Measured(Skill.parse("a"), Evaluation("d", "val", {}), 0.0, "initial_skill", 0)
START = State(initial=FIRST, current=FIRST, best=FIRST, epoch_start=FIRST.skill)


def walk(state: State, alpha: float, gates: list[str], decided: list[bool]) -> tuple[State, float]:
    """Close gates one after another; those that decided something spend their share."""
    for gate, decides in zip(gates, decided, strict=True):
        if gate in state.closed:
            continue
        spends = alpha_share(alpha, gates, state) if decides else 0.0
        state = replace(state, spent=state.spent + spends, closed=state.closed | {gate})
    return state, state.spent


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.floats(0.001, 0.9))
def test_a_run_never_spends_more_than_it_may(decided: list[bool], alpha: float) -> None:
    gates = [f"g{n}" for n in range(len(decided))]
    _, spent = walk(replace(START, gates=len(gates)), alpha, gates, decided)
    assert spent <= alpha + 1e-9
    if decided[-1]:
        assert spent == pytest.approx(alpha)


def test_gates_share_equally_and_inherit_from_those_without_a_candidate() -> None:
    gates = [f"g{n}" for n in range(4)]
    assert alpha_share(0.08, gates, START) == pytest.approx(0.02)
    skipped = replace(START, closed=frozenset({"g0", "g1"}))
    assert alpha_share(0.08, gates, skipped) == pytest.approx(0.04)


def test_more_epochs_than_at_the_beginning_add_in_proportion() -> None:
    gates = [f"g{n}" for n in range(4)]
    half, _ = walk(replace(START, gates=2), 0.05, gates[:2], [True, True])
    assert alpha_share(0.05, gates, half) == pytest.approx(0.025)
    _, spent = walk(half, 0.05, gates, [True] * 4)
    assert spent == pytest.approx(0.1)
