"""Completes a gate with defaults for the abilities that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from skillopt.core.events import GateVerdict, Measured
from skillopt.core.ports import (
    CompleteGate,
    Curtails,
    Forces,
    Gate,
    LimitsFalseAccepts,
    RanksSkills,
)
from skillopt.core.rollout import Evaluation
from skillopt.core.skill import Skill


def complete(gate: Gate, value: Callable[[Skill, Evaluation], float]) -> CompleteGate:
    """The gate with all abilities; `value` ranks skills if the gate has no number of its own."""
    if isinstance(gate, CompleteGate):
        return gate
    return _Completed(
        gate=gate,
        ranks=gate if isinstance(gate, RanksSkills) else _Ranking(value),
        tests=gate if isinstance(gate, LimitsFalseAccepts) else _NoTest(),
        curtails=gate if isinstance(gate, Curtails) else _NoCurtailment(),
        forced=gate.forced if isinstance(gate, Forces) else False,
    )


@dataclass(frozen=True, slots=True)
class _Ranking:
    metric: Callable[[Skill, Evaluation], float]

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        return self.metric(skill, evaluation)


@dataclass(frozen=True, slots=True)
class _NoTest:
    alpha: float = 0.0

    def fewest_wins(self, level: float) -> int | None:
        return 0


@dataclass(frozen=True, slots=True)
class _NoCurtailment:
    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> Sequence[str]:
        return tasks

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Completed:
    gate: Gate
    ranks: RanksSkills
    tests: LimitsFalseAccepts
    curtails: Curtails
    forced: bool

    @property
    def alpha(self) -> float:
        return self.tests.alpha

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        return self.ranks.value(skill, evaluation)

    def fewest_wins(self, level: float) -> int | None:
        return self.tests.fewest_wins(level)

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> Sequence[str]:
        return self.curtails.order(tasks, skill, incumbent)

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        return self.curtails.foresee(candidate, incumbent, left, level=level)

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        return self.gate.judge(candidate, incumbent, level=level)
