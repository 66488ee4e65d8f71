"""The parts of an optimizer as protocols, and the tools that they may use.

Each part is one class: its settings, what it does, what it costs at most. It is found by an entry
point or as `module:Name`, or given as an object (`skillopt/config/parts.py`). The fields of a
dataclass are its settings, except those with the name of a tool. Optional for every part: `cost`
(`skillopt.core.costs.TellsCost`), and `edits_only`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from skillopt.core.edits import Placement
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, ProposalSet, Rate, Rewritten, Selection
from skillopt.core.rollout import Batches, Change, Rollout, Score
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.optimizer.probe import Probing
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.replies import EDITS, Form
from skillopt.prompts.ask import Asker


class TriesSkills(Protocol):
    """Attempts at training tasks with a skill, from finished work where possible."""

    async def __call__(
        self, skill: Skill, tasks: Sequence[str], replicate: int = 0
    ) -> list[Rollout]:
        """One rollout per task, in order."""
        ...


class TriesAhead(Protocol):
    """For the length of a block, idle workers begin attempts that `TriesSkills` may make next."""

    def __call__(self, skill: Skill, tasks: Sequence[str]) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerTools:
    """What a part gets by naming a field so; a class method `from_settings` gets all of it."""

    asker: Asker
    """Asks the optimizer model."""
    sink: EventSink
    """Reports progress."""
    attempt: TriesSkills
    ahead: TriesAhead | None = None
    """None: nothing is attempted by speculation (`engine.speculate`)."""
    form: Form = EDITS
    """The form of proposals, as the update mode has it: edits, suggestions or whole texts."""
    reminders: Reminders | None = None
    probing: Probing | None = None
    mark: Callable[[Score], float] = attrgetter("hard")
    """A score in the metric of the run."""
    seed: int = 42
    rewrite_tokens: int | None = None
    """Maximum tokens of a reply with a whole body."""
    rewrite_effort: str | None = None


class Merger(Protocol):
    """Findings to one set of proposals: `gradient.merge_mode`."""

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ProposalSet: ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the proposals of a step were drawn from."""

    findings: Sequence[Finding] = ()
    rollouts: Sequence[Rollout] = ()
    goes_on: bool = False
    """Whether these tasks will be attempted with what is chosen, so that it may be done at once."""


class Selector(Protocol):
    """The best proposals within a budget: `optimizer.select_mode`."""

    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        """Choose; without a budget, all of them."""
        ...


Schedule: TypeAlias = Callable[[int, int], int | None]
"""The learning rate of a step, given its number and that of all: `optimizer.lr_scheduler`.

None: everything proposed is used.
"""


class RateControl(Protocol):
    """How many of the merged proposals a step may use: `optimizer.lr_control_mode`.

    Optional: `schedule`, which holds instead of the scheduler (a control that has one cannot be
    combined with a scheduler that has a control); `reads_all_scores`, if rejected candidates must
    be measured on all tasks.
    """

    async def __call__(
        self,
        skill: Skill,
        batches: Batches,
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate | None:
        """Decide; None: as scheduled."""
        ...


@runtime_checkable
class HasSchedule(Protocol):
    @property
    def schedule(self) -> Schedule: ...


@runtime_checkable
class HasControl(Protocol):
    """Optional for a schedule: it leaves the rate open, to a control of its own."""

    def __call__(self, step: int, total: int, /) -> int | None: ...

    def control(self, tools: OptimizerTools) -> RateControl: ...


class Update(NamedTuple):
    """What the chosen proposals made of the skill; None where nothing usable came of them."""

    skill: Skill | None
    report: tuple[Placement, ...] = ()
    rewritten: Rewritten | None = None


class UpdateMode(Protocol):
    """Chosen proposals to a candidate: `optimizer.skill_update_mode`.

    Optional: `form`, the form of proposals that it takes; edits by default.
    """

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update: ...


MemoryPolicy: TypeAlias = Callable[[int], bool]
"""Whether rejected edits and failures are forgotten at the end of an epoch: `optimizer.memory`."""

PairPolicy: TypeAlias = Callable[[Change], bool]
"""Whether the slow update is shown tasks with such a change: `optimizer.longitudinal_pair_policy`.

Optional: `searches`, to compare further tasks until there are enough of them.
"""


def run_memory(epoch: int) -> bool:
    """Memory policy `run`: nothing is forgotten."""
    return False


def epoch_memory(epoch: int) -> bool:
    """Memory policy `epoch`: nothing is remembered beyond it."""
    return True
