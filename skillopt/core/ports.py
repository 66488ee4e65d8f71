"""The protocols that the engine uses. The other packages implement them."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from skillopt.core.chat import Reply, Usage
from skillopt.core.events import Event, Measured, Signal, Verdict
from skillopt.core.memory import Memory
from skillopt.core.proposal import Draft, Finding, Review
from skillopt.core.rollout import Evaluation, Pair, Rollout, Score, Trajectory
from skillopt.core.rules import Cut
from skillopt.core.skill import Skill
from skillopt.core.task import Gold, Split, Task


class Episode(Protocol):
    """One task, opened: what the agent is told. Used once."""

    @property
    def instructions(self) -> str:
        """The environment's fixed part: role and answer format. The same for all its tasks."""
        ...

    @property
    def brief(self) -> str:
        """The request itself, without the skill and without the answer."""
        ...

    async def score(self, trajectory: Trajectory) -> Score:
        """Judge the attempt while the episode's resources still exist."""
        ...


@runtime_checkable
class TakesEmpty(Protocol):
    """What an episode may offer besides: it says whether an empty reply is an answer to score.

    Without it, an empty reply is asked for again, and then counts as a failure.
    """

    @property
    def empty_ok(self) -> bool:
        """Whether it is."""
        ...


@runtime_checkable
class TellsDetails(Protocol):
    """What an episode may offer besides, for the files of a run."""

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        """Facts about a scored attempt as JSON values: question, gold_answers, em and so on.

        They are written to `results.jsonl` and shown to no model.
        """
        ...


class Environment(Protocol):
    """A source of tasks that can be opened and scored. Knows nothing of models or harnesses."""

    @property
    def name(self) -> str:
        """Identity in reports."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name and every setting that changes briefs or scores; a part of cache keys."""
        ...

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of a split, in a stable order; splits are disjoint."""
        ...

    def open(self, task: Task) -> AbstractAsyncContextManager[Episode]:
        """Acquire what the task needs; release it on exit, whatever happened."""
        ...


@runtime_checkable
class TellsGold(Protocol):
    """What an environment may offer besides, so that its data and scorer can be checked."""

    def gold(self, task: Task) -> Gold | None:
        """The right answer; None where the task has none that can be told."""
        ...


class Harness(Protocol):
    """A way to run an agent: one question, a tool loop, a coding agent's CLI."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes behaviour: model, limits, layout, program version."""
        ...

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Attempt the episode with the skill in force."""
        ...


class Subject(Protocol):
    """The target as a probe reaches it. What would give the reference away is `Unusable`."""

    def betrayed(self, rollout: Rollout, text: str) -> str:
        """What the text would tell the target of the reference; empty when nothing."""
        ...

    async def explain(self, rollout: Rollout, skill: Skill, question: str) -> str:
        """Ask about an attempt that was made with this skill."""
        ...

    async def retry(self, rollout: Rollout, skill: Skill, instruction: str) -> Rollout:
        """Attempt the task again with one more instruction in the skill; it has a score."""
        ...


class Proposer(Protocol):
    """Turns attempts into findings: the first stage of an optimizer."""

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """Read each batch in order, to its end; it may be read more than once.

        `budget` bounds the proposals of each finding; None does not.
        """
        ...


class Optimizer(Protocol):
    """Turns a step's evidence into candidates, if anything comes of it."""

    async def propose(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> Draft:
        """Read each micro-batch as it comes, in its fixed order, and draft a candidate."""
        ...


class MetaReflector(Protocol):
    """Looks at everything that an epoch tried, and thinks again."""

    async def rethink(
        self, skill: Skill, memory: Memory, *, epoch: int, budget: int | None
    ) -> Draft:
        """Draft a candidate from the directions of the epoch."""
        ...


class Pruner(Protocol):
    """Looks for rules that can be spared."""

    @property
    def gate(self) -> Gate:
        """For what is only shorter."""
        ...

    async def cut(self, skill: Skill, sample: Sequence[Task], events: Iterable[Event]) -> Cut:
        """Leave out what nothing misses on training tasks; `events`: the run so far."""
        ...


class Shortener(Protocol):
    """Holds candidates to a size."""

    @property
    def limit(self) -> int:
        """How many tokens a skill may have."""
        ...

    async def shorten(self, skill: Skill) -> tuple[Skill, str]:
        """The same skill in fewer words; or as it is, and why."""
        ...


class Reviewer(Protocol):
    """Looks back over an epoch."""

    async def review(
        self, before: Skill, after: Skill, pairs: Sequence[Pair], memory: Memory, *, last: bool
    ) -> Review:
        """Conclude guidance for the skill and, unless this epoch is the last, lessons."""
        ...


class Gate(Protocol):
    """Decides whether a measured candidate replaces the current skill. Pure."""

    @property
    def forced(self) -> bool:
        """Whether every candidate becomes current, better or not."""
        ...

    def value(self, skill: Skill, evaluation: Evaluation) -> float:
        """The number by which skills are ranked."""
        ...

    @property
    def alpha(self) -> float:
        """The chance of a false accept that a whole run may have; 0: the gate does not test."""
        ...

    def fewest_wins(self, level: float) -> int | None:
        """How many tasks a candidate must win, losing none, to be accepted at this `level`.

        None: it would not be with any number of them.
        """
        ...

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> Sequence[str]:
        """The order in which a candidate (by digest) meets the tasks, so that little settles it."""
        ...

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> Verdict | None:
        """The verdict against the candidate that no outcome of the tasks left can avert.

        The candidate has met all tasks but these, in `order`. Each of them may bring any score, or
        none. None: still open.
        """
        ...

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> Verdict:
        """Whether the candidate is really better on the same tasks.

        `level` is the part of `alpha` that this decision may spend.
        """
        ...


class Course(Protocol):
    """How several candidates come down to the one that meets the gate. Pure."""

    def screening(self, known: Evaluation) -> Sequence[Sequence[str]]:
        """Tasks of the step, block by block; `known` is how it went before.

        None at all where nothing can be gained.
        """
        ...

    def blocks(self, tasks: Sequence[str], step: int) -> Sequence[Sequence[str]]:
        """Validation tasks, block by block: one for each heat, as long as there is a choice."""
        ...

    def screened(self, gains: Mapping[str, float]) -> Sequence[str]:
        """Who goes on after a heat on the step's own tasks, best first; it may be nobody."""
        ...

    def halved(self, gains: Mapping[str, float]) -> Sequence[str]:
        """Who goes on after a heat on validation tasks, best first; one at least."""
        ...


class Parents(Protocol):
    """Which skill a step sets out from. Pure."""

    def __call__(self, pool: Sequence[Measured], step: int) -> Measured:
        """One of the skills that have been current; the last one still is."""
        ...


class Record(Protocol):
    """The record of a run: append-only, and sufficient to resume it."""

    def append(self, event: Event) -> None:
        """Record durably before returning."""
        ...

    def events(self) -> Iterable[Event]:
        """Everything recorded so far, oldest first."""
        ...


class Work(Protocol):
    """Finished work by content: what is asked again is free."""

    def enter(self, move: str) -> None:
        """From now on, work is done for this move; only the ledger cares."""
        ...

    async def rollout(
        self, key: str, make: Callable[[], Awaitable[Rollout]], *, ahead_of: str = ""
    ) -> tuple[Rollout, bool]:
        """The rollout kept under `key`, or make and keep it; True when it was there.

        Asked for twice at once, it is made once. A rollout without a score is not kept.

        `ahead_of` names a move that may need it: it is booked there, and counts as unused, and as
        not there, until somebody asks for it without.
        """
        ...

    async def reply(
        self, key: str, *, role: str, stage: str, make: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """The reply kept under `key`, or make and keep it, once however many ask at a time."""
        ...

    def spent(self) -> Mapping[tuple[str, str, str], Usage]:
        """What was paid in all processes of the run, by (move, role, stage)."""
        ...


class Reservation(Protocol):
    """The worst case of one call under way. Exactly one of these happens to it."""

    def answered(self, usage: Usage) -> None:
        """It was paid."""
        ...

    def failed(self) -> None:
        """Nothing was paid."""
        ...

    def interrupted(self) -> None:
        """Nobody knows whether it was answered."""
        ...


class Reservations(Protocol):
    """Calls under way, known to later processes of the run should this one be killed."""

    def reserve(self, role: str, stage: str, worst: Usage | None) -> Reservation:
        """Durable when it returns, before the call is sent; None: no limit depends on it."""
        ...

    def interrupted(self) -> Usage:
        """Worst cases of the calls that were under way when a process was killed or stopped."""
        ...


class Watcher(Protocol):
    """Sees what happens, as it happens. Must be quick and must not raise."""

    def __call__(self, event: Event | Signal, /) -> None: ...
