"""The protocols that the engine uses. The other packages implement them."""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from skillopt.core.chat import Image, Model, Reply, Tool, ToolCall, Usage
from skillopt.core.episode import (
    EpisodeLimits,
    EpisodeNeed,
    LeftFiles,
    NextTurn,
    ToolResult,
    Workspace,
)
from skillopt.core.events import Event, GateVerdict, Measured, Signal
from skillopt.core.memory import Memory
from skillopt.core.proposal import Draft, Finding, Review
from skillopt.core.rollout import Batches, Evaluation, Pair, Rollout, RolloutSpec, Score, Trajectory
from skillopt.core.rules import Cut
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.core.skill import Skill
from skillopt.core.task import Gold, Split, Task


class Episode(Protocol):
    """One task, opened for one attempt: instructions, task text and scoring."""

    @property
    def instructions(self) -> str:
        """Role and answer format; the same for all tasks of the environment."""
        ...

    @property
    def brief(self) -> str:
        """The text of the task, without the skill and without the right answer."""
        ...

    async def score(self, trajectory: Trajectory) -> Score:
        """Score the attempt; called while the episode is still open."""
        ...


@runtime_checkable
class TakesEmpty(Protocol):
    """Optional for an episode: whether an empty reply is an answer to score.

    Without it, an empty reply is requested again; if it stays empty, the attempt is a failure.
    """

    @property
    def empty_ok(self) -> bool: ...


@runtime_checkable
class TellsDetails(Protocol):
    """Optional for an episode: further values for the files of a run.

    They are JSON values of a scored attempt: question, gold_answers, em and so on. They are
    written to `results.jsonl` and shown to no model.
    """

    def details(self, trajectory: Trajectory) -> Mapping[str, object]: ...


@runtime_checkable
class ShowsImages(Protocol):
    """Optional for an episode: images that belong to the brief, in order; they may be none."""

    @property
    def images(self) -> Sequence[Image]: ...


@runtime_checkable
class OffersTools(Protocol):
    """Optional for an episode: tools that the agent may call; they may be none."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    async def call(self, call: ToolCall) -> str | ToolResult:
        """The result of a call of one of these tools; its arguments are a JSON object.

        An exception is told to the agent as an error of its call. An `EnvironmentFault` ends the
        attempt without a score.
        """
        ...


@runtime_checkable
class TakesTurns(Protocol):
    """Optional for an episode: a conversation by text, in which it answers every reply."""

    async def respond(self, reply: str) -> NextTurn | None:
        """What the agent is told next; None: the attempt is over.

        An exception ends the attempt without a score.
        """
        ...


@runtime_checkable
class HasWorkspace(Protocol):
    """Optional for an episode: a folder in which the agent works; None: it needs no folder."""

    @property
    def workspace(self) -> Workspace | None: ...


@runtime_checkable
class HasLimits(Protocol):
    """Optional for an episode: limits of one attempt on turns, seconds and tokens."""

    @property
    def limits(self) -> EpisodeLimits: ...


@runtime_checkable
class Environment(Protocol):
    """Provides tasks and scores attempts. It knows no harness and only models that it asks for."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name and all settings that affect task texts or scores; a part of cache keys."""
        ...

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of a split, in a fixed order; no task is in two splits."""
        ...

    def open(self, task: Task) -> AbstractAsyncContextManager[Episode]:
        """Open a task for one attempt; resources are released on exit, also after an error."""
        ...


@runtime_checkable
class TellsGold(Protocol):
    """Optional for an environment: right answers, for the checks of data and scorer.

    None: the answer to this task is not known.
    """

    def gold(self, task: Task) -> Gold | None: ...


@runtime_checkable
class TellsGroups(Protocol):
    """Optional for an environment: groups of tasks that an evaluation reports scores of.

    A task may be in several: `geometry`, `without the easy ones`. Without it, tasks are grouped by
    their kind.
    """

    def groups(self, task: Task) -> Collection[str]: ...


@runtime_checkable
class TellsNeeds(Protocol):
    """Optional for an environment: all that its episodes may need beyond text, before a run."""

    @property
    def needs(self) -> Collection[EpisodeNeed]: ...


@runtime_checkable
class WorksInFolder(Protocol):
    """Optional for an environment: its episodes can do with a workspace alone.

    For harnesses that serve a workspace, but not what the episodes need otherwise: what tools would
    tell lies in the workspace as files.
    """

    def in_folder(self) -> Environment:
        """The same environment, whose episodes need a workspace and nothing else.

        `ConfigError`: not with these settings.
        """
        ...


@runtime_checkable
class AsksModels(Protocol):
    """Optional for an environment: it needs models of its own to score attempts.

    Its tasks are read and opened before these models exist; only scoring needs them.
    """

    @property
    def roles(self) -> Collection[str]:
        """The roles that it asks for: `judge`, or none with these settings."""
        ...

    def with_models(self, models: Mapping[str, Model]) -> Environment:
        """The same environment with a model for each role; its fingerprint contains theirs."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """Runs programs that nobody vouches for, such as code that a model wrote."""

    @property
    def user(self) -> int | None:
        """Who its programs are outside, for sockets that they may use; None: we ourselves."""
        ...

    async def run(
        self,
        command: Sequence[str],
        files: Workspace | None = None,
        limits: SandboxLimits | None = None,
        *,
        network: bool = False,
        sockets: Sequence[Path] = (),
        programs: Sequence[Path] = (),
    ) -> SandboxResult:
        """Run a program in a folder of its own with these files, and read out what it left there.

        It sees the programs of this machine, but neither its other files nor its processes and
        variables; unix `sockets` it finds at the same path, and so it does `programs`: files and
        folders that are installed elsewhere, which it can only read. When this returns, no process
        of it is left. What the program does wrong is in the result; a `ConfigError` means that
        there is no sandbox here.
        """
        ...


class SandboxFolder(Protocol):
    """A workspace in which one program after another runs; what they leave in it stays.

    Between two programs no process is left in it. Paths are relative and have `/`. No link leads
    out of it.
    """

    @property
    def place(self) -> str:
        """Where programs find the folder."""
        ...

    async def run(
        self,
        command: Sequence[str],
        limits: SandboxLimits | None = None,
        *,
        network: bool = False,
        sockets: Sequence[Path] = (),
        programs: Sequence[Path] = (),
    ) -> SandboxResult:
        """Run a program as `Sandbox.run` does; no files are read out."""
        ...

    def read(self, path: str, most: int) -> bytes:
        """The content of a file; `OSError` and `ValueError` say why it cannot be had."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Make a file with its folders, or replace its content; raises as `read` does."""
        ...

    def lend(self, name: str, content: bytes) -> str:
        """Make a file outside of the workspace; the path at which programs find it."""
        ...

    def collect(self) -> LeftFiles:
        """Read out the files that the workspace collects."""
        ...


@runtime_checkable
class KeepsFolder(Protocol):
    """Optional for a sandbox: a workspace that outlives single programs."""

    def open(self, files: Workspace | None = None) -> AbstractAsyncContextManager[SandboxFolder]:
        """A new folder with these files; it is removed on exit."""
        ...


@runtime_checkable
class UsesSandbox(Protocol):
    """Optional for an environment: it runs programs, for instance to score attempts."""

    def with_sandbox(self, sandbox: Sandbox) -> Environment:
        """The same environment with a sandbox; called once, before its tasks are opened."""
        ...


class Harness(Protocol):
    """A way to run an agent: one request, a loop with tools, or a program."""

    @property
    def fingerprint(self) -> str:
        """Everything that affects the result: model, limits, prompt layout, program version."""
        ...

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Attempt the episode with this skill."""
        ...


@runtime_checkable
class TellsServed(Protocol):
    """Optional for a harness: what it can serve beyond text. Without it: nothing."""

    @property
    def serves(self) -> Collection[EpisodeNeed]: ...


class Executor(Protocol):
    """Where attempts are made: in this process, in others, on a cluster.

    Which attempts are made, in which order, how many at a time, what is cached and how many may
    fail is up to the caller.
    """

    async def run(self, spec: RolloutSpec) -> Rollout:
        """Open the task, run the agent with the skill, and score what it did.

        An error of the agent, the environment or a single call is the outcome `Failure`. So is a
        `RolloutError` that this raises, for instance because a worker was lost. Any other error
        ends the run.
        """
        ...


class TargetProbe(Protocol):
    """The target of a probe. A text that contains the right answer is `Unusable`."""

    def leaked_reference(self, rollout: Rollout, text: str) -> str:
        """The part of the text that would reveal the right answer; empty if there is none."""
        ...

    async def explain(self, rollout: Rollout, skill: Skill, question: str) -> str:
        """Ask the target about an attempt that it made with this skill."""
        ...

    async def retry(self, rollout: Rollout, skill: Skill, instruction: str) -> Rollout:
        """Attempt the task again with one more instruction in the skill, and score it."""
        ...


@runtime_checkable
class Proposer(Protocol):
    """Makes findings with proposals from attempts: the first stage of an optimizer.

    Each batch is read completely and in order; it may be read more than once. `budget` is the
    maximum number of proposals per finding; None: no limit.
    """

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]: ...


class Optimizer(Protocol):
    """Makes candidates from the attempts of a step, if possible; reads them in their order."""

    async def propose(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> Draft: ...


class MetaReflector(Protocol):
    """Reviews everything that an epoch tried, and proposes further edits, if possible."""

    async def rethink(
        self, skill: Skill, memory: Memory, *, epoch: int, budget: int | None
    ) -> Draft: ...


class Pruner(Protocol):
    """Finds rules without effect on training tasks; `events` is the event log so far."""

    @property
    def gate(self) -> CompleteGate:
        """The gate for a pruned skill."""
        ...

    async def cut(self, skill: Skill, sample: Sequence[Task], events: Iterable[Event]) -> Cut: ...


class Shortener(Protocol):
    """Limits the size of candidates."""

    @property
    def limit(self) -> int:
        """Maximum number of tokens of a skill."""
        ...

    async def shorten(self, skill: Skill) -> tuple[Skill, str]:
        """The shortened skill; or the unchanged skill, and the reason."""
        ...


class Reviewer(Protocol):
    """Reviews an epoch: writes guidance for the skill and, unless it is the last one, lessons."""

    async def review(
        self, before: Skill, after: Skill, pairs: Sequence[Pair], memory: Memory, *, last: bool
    ) -> Review: ...


@runtime_checkable
class Gate(Protocol):
    """Decides whether a measured candidate replaces the current skill. Has no side effects.

    `judge` is enough for a gate. What else the training loop asks of one (`CompleteGate`) is
    optional; `skillopt.core.abilities` has the defaults.
    """

    def judge(self, candidate: Measured, incumbent: Measured, *, level: float) -> GateVerdict:
        """Whether the candidate is better on the same tasks.

        `level` is the part of `alpha` that this decision may use; 0 if the gate does not test. A
        candidate with higher scores must not be judged worse.
        """
        ...


@runtime_checkable
class RanksSkills(Protocol):
    """Optional for a gate: a number of its own that skills are ranked by.

    Without it, skills are ranked by the metric of the run (`evaluation.gate_metric`).
    """

    def value(self, skill: Skill, evaluation: Evaluation) -> float: ...


@runtime_checkable
class LimitsFalseAccepts(Protocol):
    """Optional for a gate: a statistical test that limits the rate of false accepts of a run."""

    @property
    def alpha(self) -> float:
        """The false-accept rate of a whole run; 0: the gate does not test."""
        ...

    def fewest_wins(self, level: float) -> int | None:
        """How many tasks a candidate must win, losing none, to be accepted at this `level`.

        None: no number is enough.
        """
        ...


@runtime_checkable
class Curtails(Protocol):
    """Optional for a gate: rejects a candidate before all tasks are attempted.

    Without it, a candidate attempts all tasks in the given order.
    """

    def order(self, tasks: Sequence[str], skill: str, incumbent: Evaluation) -> Sequence[str]:
        """The order in which a candidate (by digest) attempts the tasks, for an early decision."""
        ...

    def foresee(
        self, candidate: Measured, incumbent: Measured, left: Collection[str], *, level: float
    ) -> GateVerdict | None:
        """The rejection of the candidate, if no outcome of the remaining tasks can change it.

        `left` are the tasks not attempted yet, in `order`. Each may get any score, or none. None:
        the decision is still open.
        """
        ...


@runtime_checkable
class Forces(Protocol):
    """Optional for a gate: whether every candidate becomes current, better or not.

    Without it, only what is better is accepted.
    """

    @property
    def forced(self) -> bool: ...


@runtime_checkable
class Decisive(Protocol):
    """Optional for a gate: whether it is never inconclusive, so that replicates are never added.

    Without it, a gate may be inconclusive.
    """

    @property
    def decisive(self) -> bool: ...


@runtime_checkable
class LooksRepeatedly(Protocol):
    """Optional for a gate: divides its level by how often it looks at a candidate at most."""

    @property
    def looks(self) -> int: ...


@runtime_checkable
class SuggestsLooser(Protocol):
    """Optional for a gate: settings under which it accepts after fewer wins.

    Each is told with the number of wins: `evaluation.KEY VALUE (7 wins)`.
    """

    def looser(self, level: float) -> Iterable[str]: ...


@runtime_checkable
class AcceptsShorter(Protocol):
    """Optional for a gate: the gate for candidates that only remove rules.

    Without it, such a candidate needs a mean that is not lower.
    """

    def for_shorter(self) -> Gate: ...


@runtime_checkable
class CompleteGate(Gate, RanksSkills, LimitsFalseAccepts, Curtails, Forces, Protocol):
    """A gate with all optional abilities: what the training loop uses."""


class EventLog(Protocol):
    """The event log of a run: append-only, and sufficient to resume it."""

    def append(self, event: Event) -> None:
        """Append an event; it is on disk when this returns."""
        ...

    def events(self) -> Iterable[Event]:
        """All events so far, oldest first."""
        ...


class RolloutCache(Protocol):
    """The cache of attempts and calls, by content."""

    def enter(self, move: str) -> None:
        """From now on, costs are recorded for this operation."""
        ...

    async def rollout(
        self,
        key: str,
        make: Callable[[], Awaitable[Rollout]],
        *,
        prefetch_for: str = "",
        certain: bool = False,
    ) -> tuple[Rollout, bool]:
        """The attempt cached under `key`, or make and cache it; True if it was cached.

        Two requests at the same time make one attempt. An attempt without a score is not cached.

        `prefetch_for` names the later operation that an attempt is for: its cost is recorded there,
        and the first request without `prefetch_for` counts as if it had made it. Until then it
        counts as unused speculation, unless it is `certain` that it will be requested.
        """
        ...

    async def reply(
        self, key: str, *, role: str, stage: str, make: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """The reply cached under `key`, or make it, once for all callers, and cache it."""
        ...

    def spent(self) -> Mapping[tuple[str, str, str], Usage]:
        """The cost of all processes of the run, by (operation, role, stage)."""
        ...


class Reservation(Protocol):
    """The reserved maximum cost of one running call. Exactly one of these methods is called."""

    def answered(self, usage: Usage) -> None:
        """The call was answered and paid."""
        ...

    def failed(self) -> None:
        """The call failed; nothing was paid."""
        ...

    def interrupted(self) -> None:
        """The call was interrupted; it is not known whether it was answered."""
        ...


class Reservations(Protocol):
    """Running calls, stored so that later processes know of them if this one is killed."""

    def reserve(self, role: str, stage: str, worst: Usage, *, limited: bool) -> Reservation:
        """Store the maximum cost before the call is sent, if a limit depends on it."""
        ...

    def charge(self, role: str, stage: str, usage: Usage) -> None:
        """Store what was spent outside of a call; it is on disk when this returns."""
        ...

    def interrupted(self) -> Usage:
        """Maximum cost of the calls that were running when a process was killed or stopped."""
        ...


Watcher: TypeAlias = Callable[[Event | Signal], None]
"""Called with every event. Must be fast and must not raise."""
