"""Attempts as short cases: input, answer, right answer."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass

from skillopt.core.rollout import Rollout, Score
from skillopt.prompts.digest import shorten

ROOM = 120
"""Tokens of a task, and again of an answer, that a case shows."""


@dataclass(frozen=True, slots=True)
class Case:
    """One attempt, small enough to stand beside others in one question."""

    id: str
    kind: str
    task: str
    said: str
    right: str
    """The reference answer, if the feedback tells it."""
    passed: bool

    def told(self) -> str:
        """Task, answer and right answer; of long texts the start and the end."""
        return (
            f"Task: {shorten(self.task, ROOM)}\n"
            f"Answered: {shorten(self.said, ROOM) or '(nothing)'}\n"
            f"Right answer: {self.right}"
        )


def case_of(rollout: Rollout) -> Case | None:
    """The attempt as a case; None when it has no score."""
    if not isinstance(rollout.outcome, Score) or rollout.trajectory is None:
        return None
    asked = [each.text for each in rollout.trajectory.messages if each.role == "user"]
    score = rollout.outcome
    said = rollout.trajectory.answer.strip()
    right = said if score.passed else expected_in(score.feedback)
    return Case(rollout.task, rollout.kind, asked[0] if asked else "", said, right, score.passed)


def expected_in(feedback: str) -> str:
    """The reference in feedback such as `wrong answer: expected 'X', got 'Y'`; or nothing."""
    _, found, rest = feedback.partition("expected '")
    if not found:
        return ""
    quoted, closed, _ = rest.partition("', got '")
    return quoted if closed else rest.removesuffix("'")


async def read_cases(batch: AsyncIterable[Rollout]) -> list[Case]:
    """All cases of a micro-batch, in its order."""
    return [case async for rollout in batch if (case := case_of(rollout))]


def by_kind(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases grouped by kind, in order of first appearance."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.kind, []).append(case)
    return groups
