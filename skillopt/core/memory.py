"""What the optimizer remembers between steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skillopt.core.edits import Edit
from skillopt.core.proposal import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One step, as later steps should remember it."""

    step: int
    action: str
    n_total: int
    n_fail: int
    patterns: tuple[Pattern, ...] = ()
    score_before: float | None = None
    score_after: float | None = None
    rejected: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """The step buffer lasts an epoch; lessons (the meta skill) last the run."""

    steps: tuple[Entry, ...] = ()
    lessons: str = ""

    def remember(self, entry: Entry) -> Memory:
        """Add a step."""
        return replace(self, steps=(*self.steps, entry))

    def turn_page(self, lessons: str | None) -> Memory:
        """Start an epoch: forget steps, keep or replace lessons."""
        return Memory(lessons=self.lessons if lessons is None else lessons)
