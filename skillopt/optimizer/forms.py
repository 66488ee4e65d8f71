"""The forms of proposals: edits, suggestions, whole bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skillopt.core.skill import Skill
from skillopt.optimizer.replies import (
    Analysis,
    EditAnalysis,
    EditMerge,
    Merge,
    RewriteAnalysis,
    RewriteMerge,
    SuggestionAnalysis,
    SuggestionMerge,
)
from skillopt.optimizer.sections import body_section, skill_section


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The prompts for one form of proposals, and the format of the answers."""

    suffix: str
    """Suffix of the names of its prompts."""
    analysis: type[Analysis]
    merge: type[Merge]
    show: Callable[[Skill], str] = skill_section
    """How a prompt shows the document."""
    whole: bool = False
    """Whether a proposal is a whole body instead of a change."""
    max_tokens: int | None = None
    """Maximum tokens of a reply; None: the setting of the model."""


EDITS: Final = Form(suffix="", analysis=EditAnalysis, merge=EditMerge)
SUGGESTIONS: Final = Form(suffix="_rewrite", analysis=SuggestionAnalysis, merge=SuggestionMerge)
REWRITES: Final = Form(
    suffix="_full_rewrite",
    analysis=RewriteAnalysis,
    merge=RewriteMerge,
    show=body_section,
    whole=True,
)
