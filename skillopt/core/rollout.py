"""One attempt at one task, and sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal, TypeAlias

from skillopt.core.chat import Message, Usage
from skillopt.core.task import Split

FULL_MARKS = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What the agent did, in order, and what it finally answered."""

    messages: tuple[Message, ...]
    answer: str
    usage: Usage = field(default_factory=Usage)
    turns: int = 1


@dataclass(frozen=True, slots=True)
class Score:
    """The environment's judgement of an attempt, both values within 0 and 1."""

    hard: float
    soft: float
    feedback: str = ""
    """What the analyst may know about why, best as `category: detail`; may quote the reference."""

    def __post_init__(self) -> None:
        """Refuse what is not a score, NaN included."""
        for name, value in (("hard", self.hard), ("soft", self.soft)):
            if not 0 <= value <= 1:
                message = f"a {name} score lies between 0 and 1, not {value!r}"
                raise ValueError(message)

    @property
    def passed(self) -> bool:
        """Full marks; anything less is a failure to learn from."""
        return self.hard >= FULL_MARKS


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no score: our fault, the provider's or the environment's, never the agent's."""

    kind: str
    message: str


Outcome: TypeAlias = Score | Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One attempt."""

    task: str
    """The task's id."""
    kind: str = "default"
    """The task's kind."""
    skill: str
    """The skill's digest."""
    outcome: Outcome
    trajectory: Trajectory | None = None
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A skill measured on a split. Failures are counted apart, never as wrong answers."""

    skill: str
    split: Split
    scores: Mapping[str, Score]
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])

    @classmethod
    def of(cls, skill: str, split: Split, rollouts: Iterable[Rollout]) -> Evaluation:
        """Gather outcomes; feedback stays with the rollouts."""
        scores, failures = dict[str, Score](), dict[str, Failure]()
        for rollout in rollouts:
            match rollout.outcome:
                case Score(hard, soft):
                    scores[rollout.task] = Score(hard, soft)
                case Failure() as failure:
                    failures[rollout.task] = failure
        return cls(skill, split, scores, failures)

    def on(self, tasks: Set[str]) -> Evaluation:
        """The same evaluation, seen through some of its scored tasks."""
        kept = {key: score for key, score in self.scores.items() if key in tasks}
        return replace(self, scores=kept, failures={})

    @property
    def n(self) -> int:
        """How many tasks have a score."""
        return len(self.scores)

    @property
    def hard(self) -> float:
        """Mean hard score; 0 when nothing was scored."""
        return fmean(score.hard for score in self.scores.values()) if self.scores else 0.0

    @property
    def soft(self) -> float:
        """Mean soft score; 0 when nothing was scored."""
        return fmean(score.soft for score in self.scores.values()) if self.scores else 0.0


Change: TypeAlias = Literal["improved", "regressed", "persistent_fail", "stable_success"]
CHANGED: frozenset[Change] = frozenset(("improved", "regressed"))
UNCHANGED: frozenset[Change] = frozenset(("persistent_fail", "stable_success"))


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
