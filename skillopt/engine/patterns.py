"""Failure patterns of a step, for the memory of later steps."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.core.proposal import Finding, Pattern
from skillopt.core.rollout import Rollout, Score


def patterns_in(findings: Sequence[Finding], rollouts: Sequence[Rollout]) -> tuple[Pattern, ...]:
    """The analysts' patterns, equal names united; without any, groups of equal feedback."""
    seen = [
        pattern for each in findings if each.source == "failure" for pattern in each.patterns
    ] or [
        Pattern(each.outcome.feedback.partition(":")[0].strip() or "failed", 1, "", (each.task,))
        for each in rollouts
        if isinstance(each.outcome, Score) and not each.outcome.passed
    ]
    united: dict[str, Pattern] = {}
    for pattern in seen:
        known = united.get(pattern.name.casefold())
        united[pattern.name.casefold()] = _unite(known, pattern) if known else pattern
    return tuple(sorted(united.values(), key=lambda each: (-each.count, each.name)))


def _unite(known: Pattern, other: Pattern) -> Pattern:
    return Pattern(
        known.name,
        known.count + other.count,
        known.description or other.description,
        tuple(sorted({*known.tasks, *other.tasks})),
    )
