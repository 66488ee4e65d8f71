"""What the optimizer suggests, and what becomes of it on the way to a candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.core.edits import Edit, Placement
from skillopt.core.rollout import Score
from skillopt.core.skill import Skill

Source: TypeAlias = Literal["failure", "success"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit with the evidence for it."""

    edit: Edit
    source: Source
    tasks: tuple[str, ...] = ()
    """Tasks whose rollouts speak for it, sorted; merging unites them, so none is invented."""
    why: str = ""
    level: int = 0
    """How many merges it went through."""
    by: str = "analyst"
    """Which proposer made it."""

    @property
    def support(self) -> int:
        """How many tasks speak for the edit."""
        return len(self.tasks)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Something that several attempts have in common."""

    name: str
    count: int
    description: str = ""
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a probe: what was put to the target, and what came of it."""

    kind: Literal["ask", "rerun"]
    sent: str
    """A question, or an instruction that was added to the skill."""
    came: str
    """What the target said, or answered to the task."""
    score: Score | None = None
    """Of a re-run."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One attempt, looked into; `problem` says why nothing was concluded."""

    task: str
    turns: tuple[Turn, ...] = ()
    conclusion: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one reflection made of one minibatch; `problem` says why it made nothing."""

    source: Source
    batch: int
    """Which micro-batch of the step, from 0."""
    number: int
    """Which minibatch of its source in the step, from 0."""
    tasks: tuple[str, ...]
    reasoning: str = ""
    patterns: tuple[Pattern, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    problem: str = ""
    trail: tuple[str, ...] = ()
    """What was looked at on the way, where the proposer chose it."""
    notes: tuple[str, ...] = ()
    """Reminders of rules that the skill states and the agent did not follow."""
    probes: tuple[Probe, ...] = ()
    """Attempts of the minibatch that were looked into before."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Proposals with the reasoning that put them together."""

    proposals: tuple[Proposal, ...] = ()
    reasoning: str = ""
    problems: tuple[str, ...] = ()
    """Questions that got no usable answer; what was done instead is deterministic."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The proposals kept within the budget, in order of priority."""

    proposals: tuple[Proposal, ...] = ()
    reasoning: str = ""
    indices: tuple[int, ...] | None = None
    """Places in the merged bundle, when a ranking was asked for."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Appendix:
    """The reminders that a candidate carries, and how a step's own ones got among them."""

    added: tuple[str, ...] = ()
    """Those of the step that were new."""
    after: tuple[str, ...] = ()
    """All reminders of the candidate."""
    consolidated: int = 0
    """How many fewer there are because the list was compacted."""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Everything that the optimizer made of a step's evidence."""

    budget: int
    """How many edits the schedule allowed."""
    findings: tuple[Finding, ...] = ()
    merged: Bundle = field(default_factory=Bundle)
    chosen: Selection = field(default_factory=Selection)
    report: tuple[Placement, ...] = ()
    skill: Skill | None = None
    """The candidate; None when there was nothing to apply."""
    repeats: tuple[Proposal, ...] = ()
    """Proposals that were left aside because they repeat what is disproved."""
    appendix: Appendix | None = None
    """None when reminders are not kept."""


@dataclass(frozen=True, slots=True)
class Review:
    """The conclusions of an epoch; None means: keep what there is."""

    guidance: str | None = None
    guidance_reasoning: str = ""
    lessons: str | None = None
    lessons_reasoning: str = ""
    problems: tuple[str, ...] = ()
