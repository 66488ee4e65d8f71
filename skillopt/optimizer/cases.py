"""Rollouts as small cases, and groups of cases that probably fail for one reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass, field

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
    asked = [message.text for message in rollout.trajectory.messages if message.role == "user"]
    score = rollout.outcome
    said = rollout.trajectory.answer.strip()
    right = said if score.passed else expected_in(score.feedback)
    return Case(rollout.task, rollout.kind, asked[0] if asked else "", said, right, score.passed)


def expected_in(feedback: str) -> str:
    """The reference in feedback such as `wrong answer: expected 'X', got 'Y'`; or nothing."""
    _, mark, rest = feedback.partition("expected '")
    if not mark:
        return ""
    quoted, closed, _ = rest.partition("', got '")
    return quoted if closed else rest.removesuffix("'")


async def read_cases(batch: AsyncIterable[Rollout]) -> list[Case]:
    return [case async for rollout in batch if (case := case_of(rollout))]


def split(cases: Sequence[Case], key: Callable[[Case], str]) -> dict[str, list[Case]]:
    """In order of first appearance."""
    parts: dict[str, list[Case]] = {}
    for case in cases:
        parts.setdefault(key(case), []).append(case)
    return parts


GROUPS = 8
"""Groups of one micro-batch at most; what is in none of them is for a later step."""
_LABELS = 12
"""More different answers than this are no closed set."""
_LONG = 12
"""Words from which on an answer is a text, whatever it is made of."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE = re.compile(r"(?<=[.!?]) +")
_END = 400
"""Characters of a task in which its question is looked for."""
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019 -]+[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Group:
    """Failed cases that have something in common, and solved ones of the same sort."""

    name: str
    failed: list[Case] = field(default_factory=list[Case])
    solved: list[Case] = field(default_factory=list[Case])


def grouped(cases: Sequence[Case]) -> list[Group]:
    """The failed cases whose right answer is known, in groups; those with most failures first."""
    known = [case for case in cases if case.right]
    groups: list[Group] = []
    for kind, part in split(known, lambda case: case.kind).items():
        name = "" if kind == "default" else kind
        groups += _pooled(name, _by_question(name, part))
    groups.sort(key=lambda group: -len(group.failed))
    return groups[:GROUPS]


def shape_of(answer: str) -> str:
    """What an answer is made of: digits, capitals, lower case, and the marks between them."""
    if len(answer.split()) >= _LONG:
        return "a text"
    return _LETTERS.sub(_case, _NUMBER.sub("9", " ".join(answer.split())))


def question_of(task: str) -> str:
    """The last sentence of a task, which is where a question stands that follows its context."""
    lines = [line.strip() for line in task[-_END:].splitlines() if line.strip()]
    last = _SENTENCE.split(lines[-1])[-1] if lines else ""
    return _NUMBER.sub("9", " ".join(last.split()).casefold())


def _case(letters: re.Match[str]) -> str:
    text = letters[0]
    return "A" if text.isupper() else "a" if text.islower() else "Aa"


def _by_question(name: str, cases: Sequence[Case]) -> list[Group]:
    """By a question that several cases ask, unless all of them do; the rest by shape alone."""
    asked = Counter(question_of(case.task) for case in cases)
    usual = (
        {question for question, times in asked.items() if times > 1}
        if len(asked) > 1
        else set[str]()
    )

    def key(case: Case) -> str:
        question = question_of(case.task)
        return question if question in usual else ""

    groups: list[Group] = []
    for question, part in split(cases, key).items():
        label = ", ".join(filter(None, (name, f'"{question}"' if question else "")))
        groups += _by_shape(label, part)
    return groups


def _by_shape(name: str, cases: Sequence[Case]) -> list[Group]:
    """By the shape of the right answer; labels of a closed set are told apart only together."""
    labels = {case.right for case in cases}
    if len(labels) <= _LABELS and 2 * len(labels) <= len(cases):
        return [_group(name or "one of a few labels", cases)]
    shapes = split(cases, lambda case: shape_of(case.right))
    return [
        _group(", ".join(filter(None, (name, f"answer like {shape}"))), part)
        for shape, part in shapes.items()
    ]


def _pooled(name: str, groups: Sequence[Group]) -> list[Group]:
    """Groups with a failure; failures that are alone with theirs go together."""
    several = [group for group in groups if len(group.failed) > 1]
    alone = [group for group in groups if len(group.failed) == 1]
    if len(alone) <= 1:
        return [*several, *alone]
    label = ", ".join(filter(None, (name, "several sorts")))
    rest = Group(label, [case for group in alone for case in group.failed])
    return [*several, rest]


def _group(name: str, cases: Sequence[Case]) -> Group:
    failed = [case for case in cases if not case.passed]
    return Group(name, failed, [case for case in cases if case.passed])


def contrasting(cases: Sequence[Case], most: int) -> list[Case]:
    """So many cases, with as many different right answers as possible; order of appearance."""
    by_answer = list(split(cases, lambda case: case.right).values())
    rounds = max(map(len, by_answer), default=0)
    chosen = [alike[n] for n in range(rounds) for alike in by_answer if n < len(alike)][:most]
    return [case for case in cases if case in chosen]
