"""The events of a run.

A *fact* completes an operation and changes the state of the run. A *note* is stored for readers
only. A *signal* is shown during the run and not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.core.proposal import Draft, Pattern, Review, Round, Size
from skillopt.core.rollout import Change, Evaluation, Score
from skillopt.core.rules import Cut
from skillopt.core.skill import Skill

Action: TypeAlias = Literal[
    "accept_new_best",
    "accept",
    "reject",
    "force_accept",
    "skip_no_patches",
    "skip_no_change",
    "skip_no_rewrite",
    "skip_too_long",
    "skip_screened",
    "skip_no_gain",
]
"""The outcome of a step. A skipped step has no candidate for the gate: it had no proposals, none
changed the text, no usable body was returned, the text could not be shortened to its size limit, no
candidate did better on the tasks of the step, or all of these tasks had been passed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A skill with its evaluation on val and its score in the metric of the gate."""

    skill: Skill
    evaluation: Evaluation
    value: float
    origin: str
    """`initial_skill`, `step_0003`, `slow_update_epoch_02`."""
    step: int
    """The last step before this skill was made; 0 for the initial skill."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The result of a gate: better or not, with the reason."""

    finding: Literal["better", "not_better", "inconclusive"]
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A measured candidate and the decision of the gate."""

    candidate: Measured
    action: Literal["accept_new_best", "accept", "reject", "force_accept"]
    reason: str

    @property
    def accepted(self) -> bool:
        """Whether the candidate becomes the current skill."""
        return self.action != "reject"

    new_best: bool = False
    """Whether it becomes the best skill as well."""
    inconclusive: bool = False
    """Whether it was rejected because the evidence was not conclusive."""
    level: float = 0.0
    """The part of `alpha` that this decision used; 0 for gates that do not test."""
    rivals: int = 1
    """How many candidates raced on val tasks; the test used `level` divided by this number."""
    saved: int = 0
    """Attempts that were not made because the decision was certain without them.

    The score of the candidate is then an upper bound.
    """
    incumbent: Measured | None = None
    """The current skill with its new scores, if it was measured again for this decision."""
    best: Measured | None = None
    """The new best skill, if it is not the candidate: the old one with the forced guidance."""

    @property
    def bounded(self) -> bool:
        """Whether the score of the candidate is an upper bound: it was measured only in part."""
        return self.saved > 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of training tasks, evaluated with the skill that the step started from."""

    tasks: tuple[str, ...]
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Begun:
    """Fact: the run has begun, its initial skill is measured; `identity` is checked at resume."""

    initial: Measured
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    gates: int = 0
    """Number of planned gate decisions; 0 in logs of earlier versions."""
    soft_weight: float = 0.0
    """The metric of the run: the weight of soft scores; hard scores have the rest.

    0 (hard scores only) in logs of earlier versions.
    """
    type: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """Fact: a step is finished; `decision` is None if there was no candidate."""

    move: str
    step: int
    epoch: int
    in_epoch: int
    batches: tuple[Batch, ...]
    patterns: tuple[Pattern, ...]
    draft: Draft
    action: Action
    decision: Decision | None
    parent: str = ""
    """Origin of the skill that the step started from; empty: the current skill."""
    heats: tuple[Round, ...] = ()
    """Screening and race among several candidates, if there were any."""
    type: Literal["stepped"] = "stepped"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaReflected:
    """Fact: a meta reflection is finished; `decision` is None if there was no candidate."""

    move: str
    step: int
    """The last step of the epoch."""
    epoch: int
    draft: Draft
    action: Action
    decision: Decision | None
    type: Literal["meta_reflected"] = "meta_reflected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Fact: a pruning is finished; `decision` is None if no rule could be removed."""

    move: str
    step: int
    """The last step of the epoch."""
    epoch: int
    cut: Cut
    decision: Decision | None
    type: Literal["pruned"] = "pruned"


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
class EpochClosed:
    """Fact: the end of an epoch is finished; `pairs` is empty if there was nothing to compare."""

    move: str
    epoch: int
    before: str = ""
    """Digest of the skill the epoch started from."""
    after: str = ""
    pairs: tuple[Compared, ...] = ()
    review: Review = field(default_factory=Review)
    decision: Decision | None = None
    forgets: bool = True
    """Whether the memory of earlier steps is cleared; true in logs of earlier versions."""
    size: Size | None = None
    """Size of the candidate; None if there was none."""
    type: Literal["epoch_closed"] = "epoch_closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalTested:
    """Fact: the initial, the best and the last skill were measured on the test split."""

    move: str
    tasks: str
    """Digest of the test tasks."""
    initial: Evaluation
    best: Evaluation
    last: Evaluation
    type: Literal["examined"] = "examined"


@dataclass(frozen=True, slots=True)
class Started:
    """Note: a process started or resumed the run."""

    at: str
    version: str
    prices: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Source of the price of each role; None: unknown. Empty in logs of earlier versions."""
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Timed:
    """Note: the duration of a phase, in the process that finished it."""

    move: str
    phase: str
    seconds: float
    type: Literal["timed"] = "timed"


@dataclass(frozen=True, slots=True)
class Warned:
    """Note: something makes the run doubtful; the text also says what to do."""

    text: str
    type: Literal["warned"] = "warned"


@dataclass(frozen=True, slots=True)
class Remaining:
    """Estimate for the rest of a run, each as minimum and maximum."""

    calls: tuple[int, int]
    tokens: tuple[int, int]
    dollars: tuple[float, float] | None = None
    """None: a price is unknown."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Note: a process ended before the run was finished."""

    reason: str
    at: str
    rest: Remaining | None = None
    """Set if a limit of the user was the reason."""
    type: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True)
class Finished:
    """Note: the run is finished."""

    at: str
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True)
class Prefetched:
    """Note: the number of speculative attempts that were started during a gate decision."""

    move: str
    attempts: int
    type: Literal["speculated"] = "speculated"


Decided: TypeAlias = Stepped | MetaReflected | Pruned | EpochClosed
"""Facts that may have a gate decision."""
Progress: TypeAlias = Decided | FinalTested
Fact: TypeAlias = Begun | Progress
Note: TypeAlias = Started | Timed | Warned | Prefetched | Stopped | Finished
Event: TypeAlias = Fact | Note


@dataclass(frozen=True, slots=True)
class PhaseOpened:
    """Signal: a phase starts; `total` is its number of units, 0 if unknown."""

    move: str
    phase: str
    total: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """Signal: one unit of a phase is finished."""

    move: str
    phase: str
    how: Literal["done", "reused", "failed"] = "done"
    score: float | None = None


@dataclass(frozen=True, slots=True)
class PhaseClosed:
    """Signal: a phase has ended."""

    move: str
    phase: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Signal: the run waits for a server that is down, or the server is back."""

    server: str
    seconds: float
    """How long the server has been down."""
    over: bool = False


Signal: TypeAlias = PhaseOpened | Ticked | PhaseClosed | Waiting
