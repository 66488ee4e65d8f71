"""Checks, before anything is spent, whether a gate that tests can accept any candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from skillopt.app.gating import gates, metric, own_gate, replication
from skillopt.config.parts import GATE
from skillopt.config.schema import Config
from skillopt.core.ports import SuggestsLooser
from skillopt.core.rollout import EQUAL
from skillopt.core.state import State
from skillopt.core.wording import counted
from skillopt.engine.candidate_evaluation import alpha_share, out_of_reach
from skillopt.engine.plan import Plan


@dataclass(frozen=True, slots=True)
class Reach:
    """How many of the decisions that lie ahead can accept a candidate."""

    gate: str
    """The gate's name in the settings."""
    level: float
    """The chance of a false accept that each decision has if all have candidates."""
    decisions: int
    able: int
    """The last so many can: the others leave them their part of alpha."""
    wins: int | None
    """Tasks that a candidate must win at this level, losing none; None: no number is enough."""

    @property
    def closed(self) -> str:
        """Which decisions cannot accept anything; empty where all can."""
        if self.able == self.decisions:
            return ""
        if not self.able and self.decisions == 1:
            return "the one decision cannot accept a candidate"
        if not self.able:
            return f"none of the {self.decisions} decisions can accept a candidate"
        blocked = self.decisions - self.able
        return f"the first {blocked} of {self.decisions} decisions cannot accept any candidate"


def reach(config: Config, plan: Plan, val: int) -> Reach | None:
    """What the settings allow with so many val tasks; None: the gate does not test."""
    gate, decisions = gates(config)[0], len(_decisions(config, plan))
    if not gate.alpha or not decisions:
        return None

    def enough(level: float) -> bool:
        wins = gate.fewest_wins(level)
        return wins is not None and wins <= val

    return _reach(config, gate.alpha, decisions, enough)


def unreachable(config: Config, plan: Plan, val: int) -> list[str]:
    """A warning where decisions cannot accept anything because val is too small for them."""
    found = reach(config, plan, val)
    if found is None or not found.closed:
        return []
    return [f"evaluation.gate {found.gate}: {found.closed}. {needs(config, found, val)}"]


def needs(config: Config, found: Reach, val: int) -> str:
    """What such a gate asks for, and what would help."""
    size = f"at least {found.wins} val tasks"
    return f"{_asks(found)}, and val has {val}. {_help(config, found, size)}"


def no_room(config: Config, plan: Plan, state: State) -> list[str]:
    """A warning where the current skill fails too few val tasks for a gain to be seen."""
    gate = gates(config)[0]
    moves = _decisions(config, plan)
    left = sum(move not in state.closed for move in moves)
    if not gate.alpha or not left or plan.out_of_patience(state):
        return []
    known = state.current.evaluation
    tasks, evidence = [*known.scores, *known.failures], replication(config)

    def enough(level: float) -> bool:
        return out_of_reach(gate, evidence, tasks, state.current, level) is None

    found = _reach(config, left * alpha_share(gate.alpha, moves, state), left, enough)
    if not found.closed:
        return []
    failed = sum(mark < 1 - EQUAL for mark in metric(config).marks(known).values())
    size = "harder val tasks"
    if failed and found.wins is not None:
        size = f"{ceil(found.wins * len(tasks) / failed)} val tasks like these, or harder ones"
    few = f"the current skill fails only {failed} of {len(tasks)} val tasks"
    if failed == len(tasks):
        few = f"there are only {len(tasks)} val tasks"
    return [
        f"evaluation.gate {found.gate}: {found.closed}, because {few}. {_asks(found)}. "
        f"{_help(config, found, size)}"
    ]


def _decisions(config: Config, plan: Plan) -> list[str]:
    gate, slow = gates(config)
    return plan.gated(steps=bool(gate.alpha), guidance=bool(slow.alpha))


def _reach(config: Config, alpha: float, decisions: int, enough: Callable[[float], bool]) -> Reach:
    """`alpha` is shared equally by the decisions that can accept something."""
    able = next((n for n in range(decisions, 0, -1) if enough(alpha / n)), 0)
    level = alpha / decisions
    wins = gates(config)[0].fewest_wins(level)
    return Reach(GATE.names(config.evaluation), level, decisions, able, wins)


def _asks(found: Reach) -> str:
    among = f"among {found.decisions} decisions" if found.decisions > 1 else "in one decision"
    return (
        f"With alpha {among} each has {found.level:.2g}, for which a candidate must win at least "
        f"{found.wins} val tasks and lose none"
    )


def _help(config: Config, found: Reach, size: str) -> str:
    ways = [size]
    if found.able:
        fewer = "fewer train.num_epochs, or a larger train.batch_size"
        ways.append(f"at most {counted(found.able, 'decision')} ({fewer})")
    gate = own_gate(config)
    if isinstance(gate, SuggestsLooser):
        ways += gate.looser(found.level)
    ways.append("a larger evaluation.alpha")
    return f"What helps: {'; '.join(ways)}; or evaluation.gate strict, which tests nothing"
