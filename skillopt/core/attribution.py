"""A skill rule by rule: what each is worth, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.events import Action
from skillopt.core.rules import Worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What brought a line into the skill."""

    move: str
    """As in the record, or `initial_skill`."""
    by: tuple[str, ...] = ()
    """The proposers."""
    failures: tuple[str, ...] = ()
    """Tasks whose failed attempts speak for it."""
    successes: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    """In the proposers' words."""
    action: Action | None = None
    """The verdict on the candidate that it came with; None for the initial skill."""
    reason: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """All that speak for it, failures first."""
        return self.failures + self.successes


@dataclass(frozen=True, slots=True)
class Attributed:
    """A rule with its value and where its lines come from."""

    worth: Worth
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """A skill rule by rule."""

    skill: str
    """Its digest."""
    tasks: tuple[str, ...]
    """The val tasks that the rules were tried on."""
    rules: tuple[Attributed, ...]
    """In the order in which they stand."""
