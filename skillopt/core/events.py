"""What is written down, and what is only shown.

A *fact* closes a move and changes the state. A *note* is kept for readers only. A *signal* is
shown while it happens and not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.core.proposal import Draft, Heat, Pattern, Review, Size
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
"""What became of a step. A skip brought nothing to the gate: no proposals came, none changed the
text, no usable body came back, the text could not be made to fit its size limit, no candidate did
better on the step's own tasks, or none could because they were all passed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A skill together with its validation result and the gate's number for it."""

    skill: Skill
    evaluation: Evaluation
    value: float
    origin: str
    """`initial_skill`, `step_0003`, `slow_update_epoch_02`."""
    step: int
    """The last step before the skill was written; 0 for the initial skill."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate makes of the evidence."""

    finding: Literal["better", "not_better", "inconclusive"]
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A measured candidate and what the gate said of it."""

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
    """Whether it was rejected because nothing could be said, not because it is no better."""
    level: float = 0.0
    """The chance of a false accept that was spent here; 0 from gates that do not test."""
    rivals: int = 1
    """How many candidates were raced on validation tasks; each may use that part of `level`."""
    saved: int = 0
    """Attempts that were not made because the verdict was certain without them.

    The candidate's value is then the most that it could have reached.
    """
    incumbent: Measured | None = None
    """The current skill as it is known after this, if it was measured again for this."""
    best: Measured | None = None
    """What becomes best instead of the candidate: the best skill with the same guidance."""

    @property
    def bounded(self) -> bool:
        """Whether the candidate's value is an upper bound: it was not measured to the end."""
        return self.saved > 0


@dataclass(frozen=True, slots=True)
class Batch:
    """How a micro-batch of training tasks went under the skill that the step set out from."""

    tasks: tuple[str, ...]
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Begun:
    """Fact: the initial skill was measured; `identity` says what makes this run this run."""

    initial: Measured
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    gates: int = 0
    """How many decisions the plan foresaw; 0 in records that do not say."""
    soft_weight: float = 0.0
    """The run's metric: how much soft scores count in it, and hard ones for the rest.

    0 (hard scores alone) in records that do not say.
    """
    type: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """Fact: a step ended; without a decision when there was nothing to try."""

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
    """Origin of the skill that the step set out from; empty: the current one."""
    heats: tuple[Heat, ...] = ()
    """How one of several candidates came to be the one that met the gate."""
    type: Literal["stepped"] = "stepped"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaReflected:
    """Fact: an epoch's directions were looked at together; without a decision nothing was tried."""

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
    """Fact: every rule was left out in turn; without a decision none of them can be spared."""

    move: str
    step: int
    """The last step of the epoch."""
    epoch: int
    cut: Cut
    decision: Decision | None
    type: Literal["pruned"] = "pruned"


@dataclass(frozen=True, slots=True)
class Compared:
    """One task under the skill an epoch started from and the one it ended with."""

    task: str
    change: Change | None
    before: Score | None
    after: Score | None
    shown: bool = True
    """Whether the optimizer saw it: the pair policy may leave it aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochClosed:
    """Fact: an epoch was reviewed. Without pairs there was nothing to compare with yet."""

    move: str
    epoch: int
    before: str = ""
    """Digest of the skill the epoch started from."""
    after: str = ""
    pairs: tuple[Compared, ...] = ()
    review: Review = field(default_factory=Review)
    decision: Decision | None = None
    forgets: bool = True
    """Whether the steps so far are forgotten; in records that do not say, they were."""
    size: Size | None = None
    """How the candidate grew; None when there was none."""
    type: Literal["epoch_closed"] = "epoch_closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
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
    """Note: a process took the run up."""

    at: str
    version: str
    prices: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Who says what each role costs; None where nobody does. Empty in records that do not say."""
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Timed:
    """Note: a phase of a move took this long, in the process that finished it."""

    move: str
    phase: str
    seconds: float
    type: Literal["timed"] = "timed"


@dataclass(frozen=True, slots=True)
class Rest:
    """What the rest of a run will take, each from to."""

    calls: tuple[int, int]
    tokens: tuple[int, int]
    dollars: tuple[float, float] | None = None
    """None: a price is unknown."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Note: the process ended before the plan did."""

    reason: str
    at: str
    rest: Rest | None = None
    """Told where a limit of the user's was the reason."""
    type: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True)
class Finished:
    """Note: the plan is done; nothing is left of this run."""

    at: str
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True)
class Speculated:
    """Note: while a gate decided, so many attempts of a move that might follow were begun."""

    move: str
    attempts: int
    type: Literal["speculated"] = "speculated"


Decided: TypeAlias = Stepped | MetaReflected | Pruned | EpochClosed
"""Facts that may have brought a candidate before the gate."""
Progress: TypeAlias = Decided | Examined
Fact: TypeAlias = Begun | Progress
Note: TypeAlias = Started | Timed | Speculated | Stopped | Finished
Event: TypeAlias = Fact | Note


@dataclass(frozen=True, slots=True)
class PhaseOpened:
    """Signal: work of a known size starts; `total` is 0 when the size shows only later."""

    move: str
    phase: str
    total: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """Signal: one unit of a phase is done."""

    move: str
    phase: str
    how: Literal["done", "reused", "failed"] = "done"
    score: float | None = None


@dataclass(frozen=True, slots=True)
class PhaseClosed:
    """Signal: the phase is over."""

    move: str
    phase: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Signal: a server is down and is waited for; or it is back."""

    server: str
    seconds: float
    """How long it has been down."""
    over: bool = False


Signal: TypeAlias = PhaseOpened | Ticked | PhaseClosed | Waiting
