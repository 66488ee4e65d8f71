"""The kinds of proposals: an edit, a suggestion for a rewrite, or a whole new body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from skillopt.core.edits import Edit

Aim: TypeAlias = Literal[
    "add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify"
]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An instruction to whoever rewrites the body."""

    aim: Aim
    title: str
    instruction: str
    priority: str = ""
    """A hint in the proposer's words: high, medium, low."""
    op: Literal["suggest"] = "suggest"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A whole new body."""

    title: str
    summary: tuple[str, ...]
    """What is different, change by change."""
    body: str
    op: Literal["rewrite"] = "rewrite"


Change: TypeAlias = Edit | Suggestion | Rewrite
