"""The events of a run.

A *fact* completes an operation and changes the state of the run. A *note* is stored for readers
only. A *signal* is shown during the run and not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillopt.core.edits import Append, Change, Delete, InsertAfter, Replace, Rewrite, Suggestion
from skillopt.core.memory import MemoryEntry
from skillopt.core.rollout import Evaluation
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
        return self.action != "reject"

    new_best: bool = False
    inconclusive: bool = False
    """Whether it was rejected because the evidence was not conclusive."""
    level: float = 0.0
    """The part of `alpha` that this decision used; 0 for gates that do not test."""
    compared: int = 1
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Completes an operation of the plan.

    Each kind of fact is a subclass with fields of its own and a `type` that names it in the event
    log. The state of a run is computed from what is defined here alone.
    """

    move: str
    """The operation that is finished."""
    step: int = 0
    """The last training step up to now."""
    epoch: int = 0
    decision: Decision | None = None
    """None if there was no candidate."""
    parent: str = ""
    """Origin of the skill that the candidate was made from; empty: the current skill."""
    type: str

    @property
    def memory(self) -> MemoryEntry | None:
        """What later steps should remember, without what became of it; None: nothing."""
        return None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What the candidate really holds: an edit that could not be applied proves nothing."""
        return ()

    @property
    def reminders(self) -> tuple[str, ...]:
        """Reminders that are new in the candidate."""
        return ()

    @property
    def new_epoch(self) -> NewEpoch | None:
        """What the next epoch starts with, if this fact ends one."""
        return None

    @property
    def is_step(self) -> bool:
        """Whether this is a training step, which counts for `patience`."""
        return False

    @property
    def starts_afresh(self) -> bool:
        """Whether training may be worth while again, although its last steps changed nothing."""
        return False

    @property
    def practice(self) -> Mapping[str, bool]:
        """Training tasks that were attempted with the current skill, and whether they passed."""
        return {}

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """What was newly measured, each skill once."""
        return () if self.decision is None else (self.decision.candidate.evaluation,)

    @property
    def edits(self) -> int | None:
        """The number of edits of the candidate; None if it does not consist of edits."""
        return sum(not isinstance(change, Suggestion | Rewrite) for change in self.changes)

    @property
    def gist(self) -> str:
        """What the candidate is about, on one short line: how its first change begins."""
        return shortened(first_text(self.changes))

    @property
    def not_tried(self) -> tuple[tuple[str, Skill], ...]:
        """Candidates that were not put to the gate, by name."""
        return ()


def shortened(text: str, most: int = 60) -> str:
    """The beginning of a text, on one line of so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def first_text(changes: Iterable[Change]) -> str:
    """The text of the first edit, as in a list of candidates."""
    for change in changes:
        match change:
            case Delete(target):
                return f"without {target}"
            case Append(content) | InsertAfter(_, content) | Replace(_, content):
                return content
            case Suggestion() | Rewrite():
                pass
    return ""


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """The start of an epoch."""

    lessons: str | None
    """None: keep the old ones."""
    forgets: bool
    """Whether the memory of earlier steps is cleared."""


@dataclass(frozen=True, slots=True)
class Begun(Fact):
    """The run has begun and its initial skill is measured; `identity` is checked at resume."""

    initial: Measured
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    gates: int = 0
    """Number of planned gate decisions."""
    soft_weight: float = 0.0
    """The metric of the run: the weight of soft scores; hard scores have the rest."""
    earlier: tuple[MemoryEntry, ...] = ()
    """What the optimizer remembers of earlier runs, oldest first."""
    lessons: str = ""
    """The lessons that it starts with."""
    move: str = field(default="baseline", kw_only=True)
    type: Literal["begun"] = field(default="begun", kw_only=True)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        return (self.initial.evaluation,)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalTested(Fact):
    """The initial, the best and the last skill were measured on the test split."""

    tasks: str
    """Digest of the test tasks."""
    initial: Evaluation
    best: Evaluation
    last: Evaluation
    type: Literal["final_tested"] = "final_tested"

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        measured = (self.initial, self.best, self.last)
        return tuple({evaluation.skill: evaluation for evaluation in measured}.values())


@dataclass(frozen=True, slots=True)
class Started:
    """Note: a process started or resumed the run."""

    at: str
    version: str
    prices: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Source of the price of each role; None: unknown."""
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
    """Estimate for the rest of a run: likely ranges."""

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
    type: Literal["prefetched"] = "prefetched"


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


@dataclass(frozen=True, slots=True)
class Retried:
    """Signal: a model is asked again after an error that may pass."""

    role: str
    limited: bool = False
    """Whether the server said that it was asked too often."""


Signal: TypeAlias = PhaseOpened | Ticked | PhaseClosed | Waiting | Retried
