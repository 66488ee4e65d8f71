"""The forms of proposals: edits, suggestions, whole bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skillopt.core.skill import Skill
from skillopt.prompts.replies import (
    Analysis,
    EditAnalysis,
    EditMerge,
    Merge,
    RewriteAnalysis,
    RewriteMerge,
    SuggestionAnalysis,
    SuggestionMerge,
)
from skillopt.prompts.sections import body_section, skill_section


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Which prompts ask for proposals of one kind, and in what shape they come."""

    suffix: str
    """What the names of its prompts end in."""
    analysis: type[Analysis]
    merge: type[Merge]
    show: Callable[[Skill], str] = skill_section
    """The document as the questions show it."""
    whole: bool = False
    """Whether a proposal is a body, and not just what is to change in it."""
    max_tokens: int | None = None
    """Room for a reply; None: what the model's settings say."""


EDITS: Final = Form(suffix="", analysis=EditAnalysis, merge=EditMerge)
SUGGESTIONS: Final = Form(suffix="_rewrite", analysis=SuggestionAnalysis, merge=SuggestionMerge)
REWRITES: Final = Form(
    suffix="_full_rewrite",
    analysis=RewriteAnalysis,
    merge=RewriteMerge,
    show=body_section,
    whole=True,
)
