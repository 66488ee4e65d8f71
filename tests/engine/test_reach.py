"""Promise: what no outcome could accept is not paid for, and spends nothing of alpha."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import comb

import pytest
from support import Seen, Sums, World, analysis, teacher

from skillopt.core.chat import Request
from skillopt.core.events import Measured, Ticked
from skillopt.core.facts import Stepped
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import Evaluation, Score
from skillopt.core.sink import MemoryLog
from skillopt.core.skill import Skill
from skillopt.core.state import State
from skillopt.engine.candidate_evaluation import Replication, alpha_share, out_of_reach
from skillopt.engine.loop import train
from skillopt.engine.plan import PlanSettings
from skillopt.gates.compared import Metric, Strict
from skillopt.gates.tested import Paired, Sequential
from skillopt.model.scripted import Scripted

STRICT = Strict(Metric())
SEED = Skill.parse("You add numbers.\n")
MARKS = (None, 0.0, 1.0)


def measured(text: str, rounds: Sequence[Sequence[float | None]]) -> Measured:
    skill = Skill.parse(text)
    found = [
        {f"t{n}": Score(each, each) for n, each in enumerate(row) if each is not None}
        for row in rounds
    ]
    return Measured(skill, Evaluation.over(skill.digest, "val", found, {}), 0.0, "x", 0)


def tasks(count: int) -> list[str]:
    return [f"t{n}" for n in range(count)]


def outcomes(count: int, rounds: int) -> list[tuple[tuple[float | None, ...], ...]]:
    return list(itertools.product(itertools.product(MARKS, repeat=count), repeat=rounds))


GATES: list[tuple[CompleteGate, Replication]] = [
    (Paired(STRICT.metric, alpha=0.3), Replication()),
    (Paired(STRICT.metric, alpha=0.3, mid=True), Replication()),
    (Sequential(STRICT.metric, alpha=0.3), Replication()),
    (Paired(STRICT.metric, alpha=0.3), Replication(replicates=2, most=2)),
    (Sequential(STRICT.metric, alpha=0.3, replicates=2), Replication(replicates=2, most=2)),
]


@pytest.mark.parametrize(("gate", "replication"), GATES)
@pytest.mark.parametrize("level", [0.3, 0.6])
def test_what_is_out_of_reach_is_accepted_for_no_outcome_and_the_rest_for_some(
    gate: CompleteGate, replication: Replication, level: float
) -> None:
    """All outcomes of both sides, attempts without a score included."""
    count, rounds = 2, replication.replicates
    closed = 0
    for known in outcomes(count, rounds):
        incumbent = measured("old", known)
        verdict = out_of_reach(gate, replication, tasks(count), incumbent, level)
        accepted = any(
            gate.judge(measured("new", found), incumbent, level=level).finding == "better"
            for found in outcomes(count, rounds)
        )
        assert accepted is (verdict is None)
        closed += verdict is not None
    assert closed > 0


@pytest.mark.parametrize("kind", ["paired", "sequential"])
def test_replicates_that_may_be_bought_are_reckoned_with(kind: str) -> None:
    """An incumbent that passed everything may fail when it is asked again."""
    gates: dict[str, CompleteGate] = {
        "paired": Paired(STRICT.metric, alpha=0.1, looks=3),
        "sequential": Sequential(STRICT.metric, alpha=0.1, rounds=3),
    }
    gate, perfect = gates[kind], measured("old", [[1.0] * 6])
    assert out_of_reach(gate, Replication(), tasks(6), perfect, 0.1) is not None
    assert out_of_reach(gate, Replication(most=3), tasks(6), perfect, 0.1) is None
    known = measured("old", [[1.0] * 6] * 3)
    assert out_of_reach(gate, Replication(most=3), tasks(6), known, 0.1) is not None


def test_a_gate_that_does_not_test_is_never_out_of_reach() -> None:
    perfect = measured("old", [[1.0] * 3])
    assert out_of_reach(STRICT, Replication(), tasks(3), perfect, 0.0) is None


def accepts(gate: CompleteGate, wins: int, losses: int, level: float) -> bool:
    old, new = [0.0] * wins + [1.0] * losses, [1.0] * wins + [0.0] * losses
    verdict = gate.judge(measured("new", [new]), measured("old", [old]), level=level)
    return verdict.finding == "better"


def binomial(n: int, k: int, p: float) -> float:
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def false_accepts(gate: Paired, n: int, p: float, decisions: int) -> float:
    """How many false accepts a run expects whose candidates change nothing: exactly.

    Every task is passed with chance p by every skill; the first accept would end the count.
    """
    moves, expected = [f"g{k}" for k in range(decisions)], 0.0
    for failed in range(n + 1):
        first = measured("old", [[0.0] * failed + [1.0] * (n - failed)])
        state = State(
            initial=first, current=first, best=first, epoch_start=first.skill, gates=decisions
        )
        for move in moves:
            level = alpha_share(gate.alpha, moves, state)
            closed = out_of_reach(gate, Replication(), tasks(n), first, level)
            if closed is None:
                expected += binomial(n, failed, 1 - p) * sum(
                    binomial(failed, wins, p) * binomial(n - failed, losses, 1 - p)
                    for wins in range(failed + 1)
                    for losses in range(min(wins, n - failed) + 1)
                    if accepts(gate, wins, losses, level)
                )
            spent = state.spent + (level if closed is None else 0.0)
            state = replace(state, spent=spent, closed=state.closed | {move})
    return expected


@pytest.mark.parametrize("p", [0.2, 0.5, 0.7, 0.9])
@pytest.mark.parametrize(("n", "decisions"), [(6, 8), (9, 8), (12, 4)])
def test_with_alpha_passed_on_the_whole_run_still_errs_as_seldom_as_stated(
    n: int, decisions: int, p: float
) -> None:
    gate = Paired(STRICT.metric, alpha=0.1)
    assert false_accepts(gate, n, p, decisions) <= 0.1


def knowing(request: Request) -> str:
    """Right about sums above 103; with care, about all of them."""
    skill, question = request.messages[0].text, request.messages[1].text
    left, right = map(int, question.split(" + "))
    return str(left + right) if left > 103 or "carefully" in skill else "0"


def attempts(seen: Seen) -> dict[str, int]:
    """Those at val tasks, by move."""
    return Counter(
        each.move
        for each in seen.events
        if isinstance(each, Ticked)
        and (each.phase == "evaluate" or each.phase.startswith("replicate"))
    )


def proposals() -> Scripted:
    rules = iter(f"Add carefully, {n} times." for n in range(9))

    def answer(request: Request) -> str:
        return analysis(next(rules)) if request.stage == "analyst" else teacher(request)

    return Scripted(answer)


async def trained(
    gate: CompleteGate, replication: Replication
) -> tuple[State, list[Stepped], dict[str, int]]:
    """Four decisions; the first skill fails 4 of 8 val tasks."""
    record, seen = MemoryLog(), Seen()
    world = World(
        env=Sums(size=8),
        target=Scripted(knowing),
        optimizer=proposals(),
        gate=gate,
        shape=PlanSettings(epochs=1, batch=2, seed=0),
        replication=replication,
        final_test=False,
        record=record,
        seen=seen,
    )
    state = await train(world.run(), SEED)
    return state, [each for each in record.kept if isinstance(each, Stepped)], attempts(seen)


@pytest.mark.parametrize("replication", [Replication(block=2), Replication(block=8)])
async def test_decisions_that_cannot_accept_cost_nothing_and_leave_their_alpha_to_later_ones(
    replication: Replication,
) -> None:
    """p is 2^-4 = 0.0625 at best; 0.2 among four is less, among three is more."""
    gate = Paired(STRICT.metric, alpha=0.2)
    state, steps, made = await trained(gate, replication)
    first, second = steps[0].decision, steps[1].decision
    assert first is not None
    assert second is not None
    assert (first.action, first.inconclusive, first.level) == ("reject", True, 0.0)
    assert first.reason == (
        "no candidate can be accepted: at best 4 better, 0 worse of 8, p 0.062 > 0.05"
    )
    assert first.saved == 8
    assert second.level == pytest.approx(0.2 / 3)
    assert second.action == "accept_new_best"
    assert "step_0001" not in made
    assert made["step_0002"] == 8
    assert state.spent <= 0.2


@pytest.mark.parametrize(
    ("gate", "replication"),
    [
        (Paired(STRICT.metric, alpha=0.01), Replication(block=2)),
        (Paired(STRICT.metric, alpha=0.0001, looks=3), Replication(block=2, most=3)),
        (Sequential(STRICT.metric, alpha=0.01), Replication(block=2)),
        (Sequential(STRICT.metric, alpha=1e-9, rounds=2), Replication(block=2, most=2)),
    ],
)
async def test_a_gate_that_can_never_accept_buys_no_attempt_and_spends_no_alpha(
    gate: CompleteGate, replication: Replication
) -> None:
    state, steps, made = await trained(gate, replication)
    assert all(step.decision is not None and step.action == "reject" for step in steps)
    assert set(made) == {"baseline"}
    assert state.spent == 0
    assert not state.memory.disproved


async def test_where_everything_is_measured_what_cannot_accept_still_spends_no_alpha() -> None:
    state, steps, made = await trained(Paired(STRICT.metric, alpha=0.01), Replication())
    assert made["step_0001"] == 8
    assert state.spent == 0
    assert steps[0].decision is not None
    assert steps[0].decision.reason == "4 better, 0 worse of 8, p 0.062 > 0.0025"
