"""The effect and the origin of each rule of a skill."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.events import Action
from skillopt.core.rules import Worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    move: str
    """The operation, as named in the event log, or `initial_skill`."""
    by: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Tasks whose failed attempts are evidence for it."""
    successes: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    """The reasons that the proposers gave."""
    action: Action | None = None
    """The decision on the candidate that contained it; None for the initial skill."""
    reason: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks that are evidence for it, failures first."""
        return self.failures + self.successes


@dataclass(frozen=True, slots=True)
class Attributed:
    worth: Worth
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    skill: str
    """Its digest."""
    tasks: tuple[str, ...]
    """The val tasks on which the rules were measured."""
    rules: tuple[Attributed, ...]
    """In the order of the document."""
