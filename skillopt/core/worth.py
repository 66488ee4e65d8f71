"""What a rule of a skill is worth, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skillopt.core.events import Action
from skillopt.core.rules import Rule


@dataclass(frozen=True, slots=True)
class Worth:
    """By how much tasks go better with a rule than without it, on average."""

    rule: Rule
    gain: float
    low: float
    """From here to `high`: the 95 % interval of the gain."""
    high: float
    n: int
    """Tasks that were scored both ways."""
    changed: int
    """Those of them that went otherwise."""

    @property
    def verdict(self) -> Literal["useful", "harmful", "unclear", "no effect"]:
        """Whether the rule surely helps or harms, may do either, or was not noticed at all."""
        if self.low > 0:
            return "useful"
        if self.high < 0:
            return "harmful"
        return "unclear" if self.changed else "no effect"


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
