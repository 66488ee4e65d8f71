"""How a run stands, in half a line."""

from __future__ import annotations

from skillopt.cli.gauges import Course
from skillopt.cli.phrases import dollars, duration, short


def outlook(course: Course) -> str:
    """Scores, cost and time left."""
    state, spent = course.state, course.spent
    best = f"best {state.best.value:.3f}" if state else ""
    left = "" if course.left is None else f"{duration(course.left)} left"
    tokens = f"{short(spent.calls)} calls, {short(spent.input + spent.output)} tokens"
    money = dollars(spent) if spent.dollars else ""
    now = f"now {state.current.value:.3f}" if state and state.current != state.best else ""
    return " · ".join(part for part in (now, best, left, money, tokens) if part)
