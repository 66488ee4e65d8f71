"""Scores, cost and time left of a running run, as one short text."""

from __future__ import annotations

from skillopt.cli.gauges import RunProgress
from skillopt.cli.phrases import dollars, duration, short

SEPARATOR = " · "


def outlook(headway: RunProgress) -> str:
    """Scores, cost and time left."""
    state, spent = headway.state, headway.spent
    best = f"best {state.best.value:.3f} ({headway.metric.name}, val)" if state else ""
    left = "" if headway.left is None else f"{duration(headway.left)} left"
    tokens = f"{short(spent.calls)} calls, {short(spent.input + spent.output)} tokens"
    money = dollars(spent) if spent.dollars else ""
    now = f"now {state.current.value:.3f}" if state and state.current != state.best else ""
    return SEPARATOR.join(part for part in (now, best, left, money, tokens) if part)
