"""Semantic density: a bonus for leading words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from skillopt.core.skill import Skill

DIRECTIVE_WORDS = (
    "must",
    "always",
    "never",
    "only",
    "critical",
    "important",
    "resolve",
    "prefer",
    "ensure",
    "strict",
    "verify",
)
"""Words that lead: unless the user names others."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Density:
    """`weight` times the share of leading words in the body; protected regions do not count."""

    weight: float
    words: tuple[str, ...] = DIRECTIVE_WORDS
    _folded: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Capitals do not matter."""
        object.__setattr__(self, "_folded", frozenset(word.casefold() for word in self.words))

    def __call__(self, skill: Skill) -> float:
        """The bonus: at most the weight, and 0 for a skill without words."""
        said = [word.casefold() for word in _WORD.findall(skill.body)]
        leading = sum(word in self._folded for word in said)
        return self.weight * (leading / len(said)) if said else 0.0
