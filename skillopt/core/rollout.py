"""Attempts at tasks, their outcomes, and evaluations."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from statistics import fmean
from typing import Literal, TypeAlias, TypeVar

from skillopt.core.chat import Message, Usage
from skillopt.core.episode import ReachedLimit
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.errors import RolloutError

T = TypeVar("T")

FULL_MARKS = 1 - 1e-9
EQUAL = 1e-12
"""Means that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What the agent did, in order, what it finally answered, and what it left behind."""

    messages: tuple[Message, ...]
    """Everything that was said, with calls of tools and their results."""
    answer: str
    usage: Usage = field(default_factory=Usage)
    turns: int = 1
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], hash=False)
    """Files of the workspace that were read out, by path."""
    exit_status: int | None = None
    """Of the program that ran the agent; None: there was none."""
    reached_limit: ReachedLimit = ""
    """The limit of the episode that ended the attempt; empty: the agent ended it."""
    skill_opened: bool | None = None
    """Whether the agent has read the skill; None: unknown."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of an attempt; `hard` and `soft` are between 0 and 1."""

    hard: float
    soft: float
    feedback: str = ""
    """The reason, preferably as `category: detail`. The optimizer reads it, the target does not; it
    may contain the right answer."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for values outside of 0 to 1, including NaN."""
        for name, value in (("hard", self.hard), ("soft", self.soft)):
            if not 0 <= value <= 1:
                message = f"a {name} score lies between 0 and 1, not {value!r}"
                raise ValueError(message)

    @property
    def passed(self) -> bool:
        return self.hard >= FULL_MARKS


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an attempt has no score; it is not the agent's answer."""

    kind: str
    message: str


Outcome: TypeAlias = Score | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    task: str
    """The task's id."""
    kind: str = "default"
    skill: str
    """The skill's digest."""
    outcome: Outcome
    trajectory: Trajectory | None = None
    replicate: int = 0
    details: Mapping[str, object] = field(default_factory=dict[str, object], compare=False)
    """Further values for result files, such as the right answer; no model sees them."""


def failure_of(error: RolloutError) -> Failure:
    return Failure(type(error).__name__, str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSpec:
    """Everything that decides one attempt. It can be written as JSON and read in another process.

    Whoever makes the attempt elsewhere has built environment and harness from the same settings:
    their fingerprints tell whether they are the ones that are meant.
    """

    task: Task
    skill: Skill
    digest: str
    """The skill's digest."""
    replicate: int = 0
    environment: str
    """The fingerprint of the environment, with the models that it asks for."""
    harness: str
    """The fingerprint of the harness, with its model."""

    @property
    def key(self) -> str:
        """Name of the attempt by everything that may change its outcome."""
        replicate = str(self.replicate)
        parts = (self.environment, self.task.digest, self.digest, self.harness, replicate)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def rollout(
        self,
        outcome: Outcome,
        trajectory: Trajectory | None = None,
        details: Mapping[str, object] | None = None,
    ) -> Rollout:
        return Rollout(
            task=self.task.id,
            kind=self.task.kind,
            skill=self.digest,
            outcome=outcome,
            trajectory=trajectory,
            replicate=self.replicate,
            details=details or {},
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A skill evaluated on a split. Failures are counted separately, not as wrong answers."""

    skill: str
    split: Split
    scores: Mapping[str, Score]
    """By task; the mean if a task was attempted several times."""
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Tasks without any score."""
    rounds: tuple[Mapping[str, Score], ...] = ()
    """Replicate by replicate, when there is more than one."""
    own_failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """Tasks that fail with this skill and not with the one it was compared with: each failed
    attempt has a score of 0."""

    @classmethod
    def of(cls, skill: str, split: Split, rollouts: Iterable[Rollout]) -> Evaluation:
        """Gather outcomes; feedback stays with the rollouts."""
        rounds: dict[int, dict[str, Score]] = {}
        failures: dict[str, Failure] = {}
        for rollout in rollouts:
            marks = rounds.setdefault(rollout.replicate, {})
            match rollout.outcome:
                case Score(hard, soft):
                    marks[rollout.task] = Score(hard, soft)
                case Failure() as failure:
                    failures[rollout.task] = failure
        return cls.over(skill, split, [rounds[number] for number in sorted(rounds)], failures)

    @classmethod
    def over(
        cls,
        skill: str,
        split: Split,
        rounds: Sequence[Mapping[str, Score]],
        failures: Mapping[str, Failure],
    ) -> Evaluation:
        """Replicates put together: a task's score is the mean of those that it has."""
        tasks = dict.fromkeys(task for marks in rounds for task in marks)
        lost = {task: failure for task, failure in failures.items() if task not in tasks}
        if len(rounds) < 2:
            return cls(skill, split, rounds[0] if rounds else {}, lost)
        scores = {task: _mean([marks[task] for marks in rounds if task in marks]) for task in tasks}
        return cls(skill, split, scores, lost, tuple(rounds))

    @property
    def replicates(self) -> tuple[Mapping[str, Score], ...]:
        """Every attempt at every task, round by round."""
        return self.rounds or (self.scores,)

    def scored(self, task: str, replicate: int) -> bool:
        rounds = self.replicates
        return replicate < len(rounds) and task in rounds[replicate]

    def plus(self, number: int, more: Evaluation) -> Evaluation:
        """The same skill with further attempts, of the round with this number (from 0).

        It may be a new round; it need not have all tasks.
        """
        rounds = list(self.replicates)
        if number == len(rounds):
            rounds.append({})
        rounds[number] = {**rounds[number], **more.scores}
        return self._with(rounds, more)

    def joined(self, other: Evaluation) -> Evaluation:
        """The same skill on further tasks, round by round."""
        both = zip_longest(self.replicates, other.replicates, fillvalue=_NOTHING)
        return self._with([{**mine, **theirs} for mine, theirs in both], other)

    def _with(self, rounds: Sequence[Mapping[str, Score]], more: Evaluation) -> Evaluation:
        failures = {**self.failures, **more.failures}
        found = Evaluation.over(self.skill, self.split, rounds, failures)
        return replace(found, own_failures={**self.own_failures, **more.own_failures})

    def ordered(self, tasks: Sequence[str]) -> Evaluation:
        """The same, with its tasks in this order."""

        def sort(marks: Mapping[str, T]) -> dict[str, T]:
            return {task: marks[task] for task in tasks if task in marks}

        rounds = tuple(map(sort, self.rounds))
        return replace(
            self,
            scores=sort(self.scores),
            failures=sort(self.failures),
            rounds=rounds,
            own_failures=sort(self.own_failures),
        )

    def granting(self, tasks: Iterable[str]) -> Evaluation:
        """The best that can come of it: full marks on these further tasks."""
        return Evaluation(
            self.skill, self.split, {**self.scores, **dict.fromkeys(tasks, Score(1, 1))}
        )

    def beside(self, other: Evaluation) -> tuple[Evaluation, Evaluation]:
        """Both, seen through the attempts that can be compared: those that have a score in each."""
        both = [
            (mine.keys() & theirs.keys(), mine, theirs)
            for mine, theirs in zip(self.replicates, other.replicates, strict=False)
        ]
        mine = [_only(marks, common) for common, marks, _ in both]
        theirs = [_only(marks, common) for common, _, marks in both]
        return (
            Evaluation.over(self.skill, self.split, mine, {}),
            Evaluation.over(other.skill, other.split, theirs, {}),
        )

    @property
    def n(self) -> int:
        """How many tasks have a score."""
        return len(self.scores)

    @property
    def passed(self) -> float:
        """Share of tasks that were passed every time (pass^k); 0 when nothing was scored."""
        marks = self.scores.values()
        return fmean(score.passed for score in marks) if self.scores else 0.0

    @property
    def hard(self) -> float:
        """Mean hard score; 0 when nothing was scored."""
        return fmean(score.hard for score in self.scores.values()) if self.scores else 0.0

    @property
    def soft(self) -> float:
        """Mean soft score; 0 when nothing was scored."""
        return fmean(score.soft for score in self.scores.values()) if self.scores else 0.0


_NOTHING: Mapping[str, Score] = {}


def _mean(scores: Sequence[Score]) -> Score:
    return Score(fmean(score.hard for score in scores), fmean(score.soft for score in scores))


def _only(marks: Mapping[str, Score], tasks: Set[str]) -> dict[str, Score]:
    return {task: score for task, score in marks.items() if task in tasks}


Change: TypeAlias = Literal["improved", "regressed", "persistent_fail", "stable_success"]
CHANGED: frozenset[Change] = frozenset(("improved", "regressed"))
UNCHANGED: frozenset[Change] = frozenset(("persistent_fail", "stable_success"))


Batches: TypeAlias = Sequence[AsyncIterable[Rollout]]
"""The micro-batches of a step, in order; each may be read more than once, while it is attempted."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The same task attempted under two skills."""

    before: Rollout
    after: Rollout

    @property
    def change(self) -> Change | None:
        """What the newer skill did to this task; None when either attempt has no score."""
        old, new = self.before.outcome, self.after.outcome
        if not isinstance(old, Score) or not isinstance(new, Score):
            return None
        if new.passed:
            return "stable_success" if old.passed else "improved"
        return "regressed" if old.passed else "persistent_fail"
