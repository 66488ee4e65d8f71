"""Proposals of the optimizer, and what becomes of them on the way to a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from skillopt.core.edits import Change, Placement
from skillopt.core.rollout import Rollout, Score
from skillopt.core.skill import Skill
from skillopt.core.task import Split

BUNDLE = "bundle"
"""The candidate that holds all chosen proposals."""

Source: TypeAlias = Literal["failure", "success"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change with the evidence for it."""

    edit: Change
    source: Source
    tasks: tuple[str, ...] = ()
    """Tasks whose rollouts speak for it, sorted; merging unites them, so none is invented."""
    why: str = ""
    level: int = 0
    """How many merges it went through."""
    by: str = "analyst"
    """Which proposer made it."""
    asked: bool = True
    """Whether the optimizer model was asked for it."""

    @property
    def support(self) -> int:
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

    @property
    def asked(self) -> bool:
        """Whether the optimizer model was asked."""
        asked = [proposal.asked for proposal in self.proposals]
        return bool(self.problem) or not asked or any(asked)


@dataclass(frozen=True, slots=True)
class ProposalSet:
    """Proposals with the reasoning that put them together."""

    proposals: tuple[Proposal, ...] = ()
    reasoning: str = ""
    problems: tuple[str, ...] = ()
    """Questions that got no usable answer; what was done instead is deterministic."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A proposal that was not chosen, and why."""

    proposal: Proposal
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The proposals kept within the budget, in order of priority."""

    proposals: tuple[Proposal, ...] = ()
    reasoning: str = ""
    indices: tuple[int, ...] | None = None
    """Places in the merged bundle, when a ranking was asked for."""
    problem: str = ""
    dropped: tuple[Dropped, ...] = ()
    """The others, each with a reason."""
    tried: tuple[Rollout, ...] = ()
    """Attempts at training tasks that tell how they go with what was chosen. Not recorded."""


@dataclass(frozen=True, slots=True)
class ReminderUpdate:
    """The reminders that a candidate carries, and how a step's own ones got among them."""

    added: tuple[str, ...] = ()
    """Those of the step that were new."""
    after: tuple[str, ...] = ()
    consolidated: int = 0
    """How many fewer there are because the list was compacted."""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many proposals a step may use, where that was decided in view of them."""

    value: int
    wanted: int | None = None
    """What was asked for, before it was held to its bounds; None when nothing usable was."""
    available: int
    reasoning: str = ""
    confidence: str = ""
    risks: tuple[str, ...] = ()
    reply: str = ""
    problem: str = ""
    """Why there was no answer to go by; the value is then a fallback."""
    volatility: float | None = None
    """What the value was worked out from, where no model was asked."""

    @property
    def clamped(self) -> bool:
        return self.wanted is not None and self.wanted != self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """How a whole body was written anew; `problem` says why it was not."""

    title: str = ""
    summary: tuple[str, ...] = ()
    reasoning: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Estimated tokens of a document on its way from the current skill to a candidate."""

    before: int
    drafted: int
    """Of the candidate as it was written first."""
    after: int
    """Of the candidate as it was tried."""
    limit: int = 0
    """How many it may have; 0: any number."""
    problem: str = ""

    @property
    def added(self) -> int:
        """By how much the candidate is longer; negative when it is shorter."""
        return self.after - self.before

    @property
    def too_long(self) -> bool:
        """Whether the candidate has more than it may have."""
        return 0 < self.limit < self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the candidates that the same evidence yields."""

    name: str = BUNDLE
    """How it came about: `bundle`, `without 2`, `only 3`, `shuffle 1`."""
    chosen: Selection = field(default_factory=Selection)
    report: tuple[Placement, ...] = ()
    """What became of each edit; empty where the body was written anew."""
    rewritten: Rewritten | None = None
    """Present where the body was to be written anew."""
    skill: Skill | None = None
    """None when there was nothing to apply."""
    size: Size | None = None
    """How it grew; None when there is no skill."""

    @property
    def fitting(self) -> Skill | None:
        """The skill, unless it is too long to be tried."""
        return None if self.size is not None and self.size.too_long else self.skill

    @property
    def changes(self) -> tuple[Change, ...]:
        """What it really holds: an edit that could not be applied proves nothing."""
        if self.rewritten is not None and not self.rewritten.problem:
            return tuple(proposal.edit for proposal in self.chosen.proposals)
        return tuple(placement.edit for placement in self.report if placement.applied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Everything that the optimizer made of a step's evidence."""

    budget: int | None
    """How many proposals the learning rate allowed; None: all of them."""
    rate: Rate | None = None
    """How the budget came about, where it was not just scheduled."""
    findings: tuple[Finding, ...] = ()
    merged: ProposalSet = field(default_factory=ProposalSet)
    candidates: tuple[Candidate, ...] = (Candidate(),)
    """At least one, perhaps without a skill; the first one is put to the gate."""
    repeats: tuple[Proposal, ...] = ()
    """Proposals that were left aside because they repeat what is disproved."""
    reminders: ReminderUpdate | None = None
    """None when reminders are not kept."""
    repaired: tuple[str, ...] = ()
    """Failed tasks of the step that passed with the candidate while it was made."""
    broken: tuple[str, ...] = ()
    """Solved tasks that failed with the candidate while it was made."""

    @property
    def leading(self) -> Candidate:
        """The candidate that is put to the gate."""
        return self.candidates[0]

    def leading_with(self, name: str) -> Draft:
        """The same, with the named candidate put to the gate."""
        ordered = sorted(self.candidates, key=lambda candidate: candidate.name != name)
        return replace(self, candidates=tuple(ordered))


@dataclass(frozen=True, slots=True)
class Round:
    """Several candidates on the same tasks, beside the skill that they must beat."""

    split: Split
    tasks: int
    gains: Mapping[str, float]
    """By candidate: how much better it did on what both met until now."""
    kept: tuple[str, ...]
    """Who goes on, best first."""

    @property
    def attempts(self) -> int:
        return self.tasks * len(self.gains)


def candidates_compared(rounds: Iterable[Round]) -> int:
    """How many candidates were compared on validation tasks before one was put to the gate."""
    return max((len(round_.gains) for round_ in rounds if round_.split == "val"), default=1)


@dataclass(frozen=True, slots=True)
class Review:
    """The conclusions of an epoch; None means: keep what there is."""

    guidance: str | None = None
    guidance_reasoning: str = ""
    lessons: str | None = None
    lessons_reasoning: str = ""
    problems: tuple[str, ...] = ()
