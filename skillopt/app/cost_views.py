"""What a run has spent, as people are shown it: by role, by move, beside the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt.config.schema import Config
from skillopt.core.chat import Usage
from skillopt.core.wording import counted
from skillopt.store.reader import RunReader
from skillopt.store.receipts import by_move, by_role, unpriced


@dataclass(frozen=True, slots=True)
class Spending:
    """Calls, tokens and dollars."""

    name: str
    """A role, a stage or a move."""
    calls: int
    input: int
    output: int
    cached: int
    dollars: float | None
    """None: no price is known."""
    parts: tuple[Spending, ...] = ()

    @property
    def tokens(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class SpendLimit:
    name: Literal["dollars", "tokens", "calls", "minutes"]
    most: float
    used: float | None
    """None: unknown, or counted in the running process only."""


@dataclass(frozen=True, slots=True)
class CostView:
    roles: tuple[Spending, ...]
    """Each with its stages."""
    moves: tuple[Spending, ...]
    """In the order of the run; what belongs to no move of the timeline comes last."""
    total: Spending
    limits: tuple[SpendLimit, ...]
    unpriced: tuple[str, ...]
    """Roles that cost nobody knows what."""
    notes: tuple[str, ...] = ()
    """What counts without an answer, and what was attempted in vain."""


def cost_view(reader: RunReader, config: Config | None, moves: Sequence[str]) -> CostView:
    spent = reader.spent()
    roles = by_role(spent)
    totals = {role: sum(stages.values(), Usage()) for role, stages in roles.items()}
    unknown = unpriced(totals, reader.prices)
    total = sum(totals.values(), Usage())
    under = {move: sum(each.values(), Usage()) for move, each in by_move(spent).items()}
    order = [*moves, *(move for move in under if move not in set(moves))]
    interrupted, ahead = reader.interrupted(), reader.ahead()
    notes: list[str] = []
    if interrupted.calls:
        notes.append(
            f"under way when the run ended: {counted(interrupted.calls, 'call')}, counted "
            "at the most they can cost"
        )
    if ahead.unused:
        notes.append(f"{ahead.unused:,} of {ahead.attempts:,} speculative attempts were not used")
    return CostView(
        roles=tuple(
            _spending(
                role,
                totals[role],
                tuple(
                    _spending(stage.replace("_", " "), usage, priced=role not in unknown)
                    for stage, usage in stages.items()
                ),
                priced=role not in unknown,
            )
            for role, stages in roles.items()
        ),
        moves=tuple(
            _spending(move, under[move], priced=not unknown)
            for move in dict.fromkeys(order)
            if move in under
        ),
        total=_spending("total", total, priced=not unknown),
        limits=_limits(config, total + interrupted),
        unpriced=tuple(unknown),
        notes=tuple(notes),
    )


def _spending(
    name: str, usage: Usage, parts: tuple[Spending, ...] = (), *, priced: bool
) -> Spending:
    dollars = usage.dollars if priced else None
    return Spending(name, usage.calls, usage.input, usage.output, usage.cached, dollars, parts)


def _limits(config: Config | None, used: Usage) -> tuple[SpendLimit, ...]:
    if config is None:
        return ()
    limits = config.limits
    every = (
        SpendLimit("dollars", limits.dollars or 0, used.dollars),
        SpendLimit("tokens", limits.tokens or 0, used.input + used.output),
        SpendLimit("calls", limits.calls or 0, used.calls),
        SpendLimit("minutes", limits.minutes or 0, None),
    )
    return tuple(limit for limit in every if limit.most)
