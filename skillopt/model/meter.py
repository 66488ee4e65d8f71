"""Counts what was spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillopt.core.chat import Usage


@dataclass(slots=True)
class Meter:
    """What was paid so far, by (role, stage). Starts from earlier totals when a run resumes."""

    totals: dict[tuple[str, str], Usage] = field(default_factory=dict[tuple[str, str], Usage])

    @classmethod
    def after(cls, spent: Mapping[tuple[str, str, str], Usage]) -> Meter:
        """A meter that goes on from what `Work.spent` tells."""
        meter = cls()
        for (_, role, stage), usage in spent.items():
            meter.add(role, stage, usage)
        return meter

    def add(self, role: str, stage: str, usage: Usage) -> None:
        """Count."""
        known = self.totals.get((role, stage))
        self.totals[role, stage] = usage if known is None else known + usage

    @property
    def total(self) -> Usage:
        """All roles and stages together."""
        return sum(self.totals.values(), Usage())
