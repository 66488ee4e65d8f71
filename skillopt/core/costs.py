"""How many calls something takes: ranges that add up, and what a part of a run tells of itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

from skillopt.core.task import Task

MANY = 12
"""Proposals of a reflection, or changes of a step, that nothing bounds: so many as a rule."""


@dataclass(frozen=True, slots=True)
class Range:
    """An estimated number: lower bound, upper bound and expected value."""

    low: float
    high: float
    assumed: float | None = field(default=None, compare=False)
    """The expected value, if it is not the middle."""

    @property
    def expected(self) -> float:
        """The expected value, within the bounds; by default the middle."""
        middle = (self.low + self.high) / 2
        return middle if self.assumed is None else min(max(self.assumed, self.low), self.high)

    def __add__(self, other: Range) -> Range:
        expected = self.expected + other.expected
        return Range(self.low + other.low, self.high + other.high, expected)

    def __mul__(self, other: Range) -> Range:
        expected = self.expected * other.expected
        return Range(self.low * other.low, self.high * other.high, expected)

    def perhaps(self, chance: float = 0.5) -> Range:
        """The same range for something that may not happen: the lower bound is 0."""
        return Range(0, self.high, self.expected * chance)

    def likely(self, factor: float) -> Range:
        """The expected value divided and multiplied by a factor, within the bounds."""
        expected = self.expected
        low, high = max(self.low, expected / factor), min(self.high, expected * factor)
        return Range(low, high, expected)


NONE = Range(0, 0)
MAYBE = Range(0, 1)


@dataclass(frozen=True, slots=True)
class PartCost:
    """The calls that a part makes in one operation, for one purpose."""

    phase: str
    calls: Range
    prompt: str = ""
    """The prompt of a question to the optimizer; empty for attempts of the target."""
    shown: float = 0
    """Tokens that such a question shows at most, besides prompt, skill and memory."""
    whole: bool = False
    """Whether the answer holds a whole body, and not just what is to change in it."""
    edits: Range = NONE
    """For attempts: edits by which the skill is longer than the current one."""
    asked: Range | None = None
    """Tokens of a question, where it shows neither skill nor memory."""
    answer: Range | None = None
    """Tokens of an answer, where they are no usual ones of the role."""
    role: Literal["optimizer", "target"] | None = None
    """None: as `prompt` says."""
    idle: bool = False
    """Whether idle workers make them, so that nobody waits for them."""

    def perhaps(self, chance: float = 0.5) -> PartCost:
        return replace(self, calls=self.calls.perhaps(chance))

    def times(self, number: int) -> PartCost:
        return replace(self, calls=self.calls * Range(number, number))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """What the parts of an optimizer work on in one step, at most."""

    batches: Sequence[Sequence[Task]]
    budget: int | None = None
    attempt_tokens: float = 0
    """Tokens of one attempt in a question."""
    evidence_tokens: float = 0
    """Tokens of all attempts in a question; 0: no limit."""
    unscored: float = 0
    """Share of the attempts that may have no score."""
    findings: int = 0
    """Findings with proposals."""
    proposals: int = 0
    deletions: bool = True
    """Whether lines may be proposed for deletion."""
    used: int = 0
    """Proposals that become part of a candidate."""

    @property
    def tasks(self) -> int:
        return sum(map(len, self.batches))

    @property
    def allowed(self) -> int:
        """The budget, or as many proposals as come as a rule."""
        return MANY if self.budget is None else self.budget

    def shown(self, attempts: float) -> float:
        """Tokens of so many attempts in one question."""
        tokens = attempts * self.attempt_tokens
        return min(tokens, self.evidence_tokens) if self.evidence_tokens else tokens


@runtime_checkable
class TellsCost(Protocol):
    """Optional for a part: the calls that it makes in a step at most."""

    def cost(self, size: StepSize) -> Iterable[PartCost]: ...


@runtime_checkable
class TellsProposals(Protocol):
    """Optional for a proposer: how much it proposes in a step at most."""

    def proposes(self, size: StepSize) -> StepSize:
        """The size with the number of findings and proposals."""
        ...


def cost_of(part: object, size: StepSize) -> Iterable[PartCost]:
    """What a part tells; one that tells nothing asks nothing."""
    return part.cost(size) if isinstance(part, TellsCost) else ()
