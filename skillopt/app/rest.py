"""Estimates the rest of a run that a limit has stopped, and the limits that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import ceil

from skillopt.app.costs import CALLS_FACTOR, TOKENS_FACTOR, Estimate, summed_lines
from skillopt.app.estimate import cost_model
from skillopt.app.run_spec import RunSpec
from skillopt.core.chat import Usage
from skillopt.core.costs import Range
from skillopt.core.events import Remaining
from skillopt.core.state import replay
from skillopt.errors import RolloutError
from skillopt.store.cache import SqliteCache
from skillopt.store.events import read_log
from skillopt.store.layout import Layout

_BEFORE = ("preflight", "baseline")
"""Where work is booked that comes before the first move."""
_BYTES = 4
"""Of a token, as estimates count; what a call sets aside goes by bytes."""


async def rest(spec: RunSpec) -> Remaining | None:
    """What the run in its directory will likely still take, from where it stands there.

    None when a task cannot be opened: that must not hide why the run has ended.
    """
    with suppress(RolloutError):
        return _less(*await _ahead(spec))
    return None


def _less(ahead: Estimate, kept: Usage) -> Remaining:
    def less(estimated: Range, factor: float, paid: float) -> tuple[float, float]:
        likely = estimated.likely(factor)
        return max(0.0, likely.low - paid), max(0.0, likely.high - paid)

    calls = less(ahead.calls, CALLS_FACTOR, kept.calls)
    tokens = less(ahead.tokens, TOKENS_FACTOR, kept.input + kept.output)
    dollars = ahead.dollars and less(ahead.dollars, TOKENS_FACTOR, kept.dollars)
    return Remaining(
        (round(calls[0]), ceil(calls[1])),
        (round(tokens[0]), ceil(tokens[1])),
        None if dollars is None else (round(dollars[0], 6), round(dollars[1], 6)),
    )


async def _ahead(spec: RunSpec) -> tuple[Estimate, Usage]:
    """All moves that are not closed, and what was paid for the one under way: it is kept."""
    layout = Layout(spec.out)
    state = replay(read_log(layout.events))
    if state is None:
        outlook = await cost_model(spec)
        lines = [*outlook.start(), *outlook.moves(spec.plan.moves)]
        under_way = set(_BEFORE)
    else:
        outlook = await cost_model(replace(spec, skill=state.current.skill))
        left = spec.plan.left(state)
        lines = list(outlook.moves(left, int(state.memory.vain)))
        under_way = {move.id for move in left[:1]}
    spent, _ = _spent(layout)
    kept = sum((used for (move, *_), used in spent.items() if move in under_way), Usage())
    return Estimate(tuple(summed_lines(lines)), spec.prices), kept


def _spent(layout: Layout) -> tuple[dict[tuple[str, str, str], Usage], Usage]:
    """What was paid, and what counts as paid by calls that nobody has seen the end of."""
    cache = SqliteCache(layout.cache, read_only=True)
    try:
        return cache.spent(), cache.interrupted()
    finally:
        cache.close()


def raised(spec: RunSpec, left: Remaining) -> Mapping[str, str]:
    """Those of the limits that the rest likely exceeds, by key, as high as it may likely come to.

    Some room is added for what a single call sets aside and does not take.
    """
    paid, interrupted = _spent(Layout(spec.out))
    spent = sum(paid.values(), interrupted)
    room = _room(spec)
    caps, higher = spec.limits, dict[str, str]()
    if caps.calls is not None and caps.calls < (calls := spent.calls + left.calls[1]):
        higher["limits.calls"] = str(calls)
    tokens = spent.input + spent.output + left.tokens[1] + room.input + room.output
    if caps.tokens is not None and caps.tokens < tokens:
        higher["limits.tokens"] = str(ceil(tokens / 1000) * 1000)
    if caps.dollars is not None and left.dollars is not None:
        dollars = spent.dollars + left.dollars[1] + room.dollars
        if caps.dollars < dollars:
            higher["limits.dollars"] = f"{ceil(100 * dollars) / 100:g}"
    return higher


def _room(spec: RunSpec) -> Usage:
    """The most that a call may set aside, about."""
    config = spec.config
    longest = max(config.model.role(role).max_tokens for role in spec.roles)
    shown = config.gradient.evidence_tokens + len(spec.skill.render())
    most = Usage(1, _BYTES * shown, max(longest, config.model.rewrite_max_completion_tokens))
    return replace(most, dollars=max((p.most(most) for p in spec.prices.values()), default=0.0))
