"""Who proposed what, and whether replies of the optimizer were usable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from skillopt.core.events import Event, MetaReflected, Stepped
from skillopt.core.proposal import Draft

ASKS_NO_MODEL = frozenset({"patterns"})
"""Proposers that work out their proposals without the optimizer model."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one proposer contributed to a run."""

    by: str
    proposed: int
    """Edits, before merging and selection."""
    tried: int
    """Edits in candidates that met the gate."""
    accepted: int
    """Edits in candidates that the gate let through."""

    @property
    def asks_model(self) -> bool:
        """Whether these are the optimizer model's own proposals."""
        return self.by not in ASKS_NO_MODEL


@dataclass(frozen=True, slots=True)
class Replies:
    """How the optimizer's replies to reflection questions came out."""

    asked: int
    """Questions about attempts, each with its second chance or its samples."""
    unusable: int
    last_problem: str = ""

    @property
    def all_unusable(self) -> bool:
        """Whether questions were asked and no reply at all could be used."""
        return 0 < self.asked == self.unusable


def shares(events: Iterable[Event]) -> list[Share]:
    """Every proposer of a run, the one with most accepted edits first."""
    proposed, tried, accepted = Counter[str](), Counter[str](), Counter[str]()
    for fact in events:
        if isinstance(fact, Stepped | MetaReflected):
            draft = fact.draft
            found = [each for finding in draft.findings for each in finding.proposals]
            proposed.update(each.by for each in found or draft.merged.proposals)
            if fact.decision is not None:
                applied = _applied(draft)
                tried.update(applied)
                accepted.update(applied if fact.decision.accepted else ())
    names = sorted(proposed | tried, key=lambda by: (-accepted[by], -proposed[by], by))
    return [Share(by, proposed[by], tried[by], accepted[by]) for by in names]


def replies(events: Iterable[Event]) -> Replies:
    """Count reflection questions and those that got no usable reply."""
    findings = [
        finding
        for fact in events
        if isinstance(fact, Stepped)
        for finding in fact.draft.findings
        if finding.problem
        or any(each.by not in ASKS_NO_MODEL for each in finding.proposals)
        or not finding.proposals
    ]
    problems = [each.problem for each in findings if each.problem]
    return Replies(len(findings), len(problems), problems[-1] if problems else "")


def useless(events: Iterable[Event]) -> str:
    """What to say, and to do, where every reply of the optimizer was unusable; else nothing."""
    found = replies(events)
    if not found.all_unusable:
        return ""
    return (
        f"no reply of the optimizer was usable ({found.unusable} of {found.asked} reflection "
        f"requests; last problem: {found.last_problem}). Nothing could be learnt, so the scores "
        "say nothing about the training. What helps: `skillopt doctor CONFIG` sends such a "
        "request; a more capable model.optimizer; a larger model.optimizer_max_tokens; "
        "gradient.proposer=instruct for a small model. Then train into another env.out_root"
    )


def _applied(draft: Draft) -> list[str]:
    """The proposers of the edits that changed the candidate."""
    chosen = draft.chosen.proposals
    if draft.rewritten is not None:
        return [each.by for each in chosen]
    placed = zip(chosen, draft.report, strict=False)
    return [each.by for each, placement in placed if placement.applied]
