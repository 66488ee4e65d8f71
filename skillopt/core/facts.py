"""The kinds of facts that operations of the training loop leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

from skillopt.core.edits import Change as Edit
from skillopt.core.edits import Delete
from skillopt.core.events import Action, Fact, NewEpoch, first_text, shortened
from skillopt.core.memory import MemoryEntry
from skillopt.core.proposal import Draft, Pattern, Review, Round, Size
from skillopt.core.rollout import Change, Evaluation, Score
from skillopt.core.rules import Cut
from skillopt.core.skill import Skill


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of training tasks, evaluated with the skill that the step started from."""

    tasks: tuple[str, ...]
    evaluation: Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted(Fact):
    """The optimizer made candidates, and one of them may have met the gate."""

    draft: Draft
    action: Action

    @property
    def changes(self) -> tuple[Edit, ...]:
        return self.draft.leading.changes

    @property
    def reminders(self) -> tuple[str, ...]:
        return self.draft.reminders.added if self.draft.reminders else ()

    @property
    def gist(self) -> str:
        rewritten = self.draft.leading.rewritten
        return shortened(first_text(self.changes) if rewritten is None else rewritten.title)

    @property
    def not_tried(self) -> tuple[tuple[str, Skill], ...]:
        others = self.draft.candidates[0 if self.decision is None else 1 :]
        skills = ((candidate.name, candidate.skill) for candidate in others)
        return tuple((name, skill) for name, skill in skills if skill is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Drafted):
    """A training step is finished."""

    in_epoch: int
    batches: tuple[Batch, ...]
    patterns: tuple[Pattern, ...]
    rounds: tuple[Round, ...] = ()
    """Screening and race among several candidates, if there were any."""
    type: Literal["stepped"] = "stepped"

    @property
    def memory(self) -> MemoryEntry | None:
        if self.action == "skip_no_patches":
            return None
        scores = [score for batch in self.batches for score in batch.evaluation.scores.values()]
        return MemoryEntry(
            step=self.step,
            epoch=self.epoch,
            action=self.action,
            n_total=len(scores),
            n_fail=sum(not score.passed for score in scores),
            patterns=self.patterns,
        )

    @property
    def is_step(self) -> bool:
        return True

    @property
    def practice(self) -> Mapping[str, bool]:
        if self.parent:
            return {}
        scores = chain(*(batch.evaluation.scores.items() for batch in self.batches))
        practice = {task: score.passed for task, score in scores}
        if self.decision is not None and self.decision.accepted:
            practice |= dict.fromkeys(self.draft.repaired, True)
            practice |= dict.fromkeys(self.draft.broken, False)
        return practice

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        gated = () if self.decision is None else (self.decision.candidate.evaluation,)
        return (*(batch.evaluation for batch in self.batches), *gated)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaReflected(Drafted):
    """A meta reflection is finished."""

    type: Literal["meta_reflected"] = "meta_reflected"

    @property
    def memory(self) -> MemoryEntry | None:
        if self.decision is None:
            return None
        return MemoryEntry(
            step=self.step, epoch=self.epoch, action=self.action, kind="meta reflection"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Fact):
    """A pruning is finished; there is no decision if no rule could be removed."""

    cut: Cut
    type: Literal["pruned"] = "pruned"

    @property
    def memory(self) -> MemoryEntry | None:
        if self.decision is None:
            return None
        return MemoryEntry(
            step=self.step, epoch=self.epoch, action=self.decision.action, kind="pruning"
        )

    @property
    def changes(self) -> tuple[Edit, ...]:
        return tuple(Delete(rule.text, file=rule.file) for rule in self.cut.rules)


@dataclass(frozen=True, slots=True)
class Compared:
    """One task, attempted with the skill at the start and the skill at the end of an epoch."""

    task: str
    change: Change | None
    before: Score | None
    after: Score | None
    shown: bool = True
    """Whether it was shown to the optimizer; this depends on the pair policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochClosed(Fact):
    """The end of an epoch is finished; `pairs` is empty if there was nothing to compare."""

    before: str = ""
    """Digest of the skill the epoch started from."""
    after: str = ""
    pairs: tuple[Compared, ...] = ()
    review: Review = field(default_factory=Review)
    forgets: bool = True
    """Whether the memory of earlier steps is cleared."""
    size: Size | None = None
    """Size of the candidate; None if there was none."""
    type: Literal["epoch_closed"] = "epoch_closed"

    @property
    def new_epoch(self) -> NewEpoch:
        return NewEpoch(self.review.lessons, self.forgets)

    @property
    def edits(self) -> None:
        return None

    @property
    def gist(self) -> str:
        return "" if self.decision is None else shortened(self.decision.candidate.skill.guidance)


ReviewVerdict: TypeAlias = Literal["accept", "reject", "edit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanReviewed(Fact):
    """A person accepted, rejected or edited a proposal; what that made of the skill is measured."""

    verdict: ReviewVerdict
    about: str = ""
    """The proposal: the operation that made it, `step_0003` or `step_0003/only 2`; empty: the
    current skill."""
    tried: tuple[Edit, ...] = ()
    """The changes of the proposal."""
    reviewer: str = ""
    comment: str = ""
    type: Literal["human_reviewed"] = "human_reviewed"

    @property
    def memory(self) -> MemoryEntry:
        done = {"accept": "accepted", "reject": "rejected", "edit": "edited by hand"}[self.verdict]
        return MemoryEntry(
            step=self.step,
            epoch=self.epoch,
            action=f"{done}: {shortened(self.comment, 300)}" if self.comment else done,
            kind="review by a person",
            accepted=self.tried if self.verdict == "accept" else (),
            rejected=self.tried if self.verdict == "reject" else (),
            one_by_one=True,
        )

    @property
    def changes(self) -> tuple[Edit, ...]:
        return self.tried if self.verdict == "accept" else ()

    @property
    def starts_afresh(self) -> bool:
        return self.decision is not None and self.decision.accepted

    @property
    def edits(self) -> int | None:
        return None if self.verdict == "edit" else len(self.tried)

    @property
    def gist(self) -> str:
        return shortened(self.comment or first_text(self.tried))
