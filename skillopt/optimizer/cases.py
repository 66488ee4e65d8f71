"""Rollouts as small cases, and groups of cases that probably fail for one reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterable, Callable, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from skillopt.core.intake import tagged
from skillopt.core.rollout import Rollout, Score
from skillopt.prompts.digest import shorten

NO_KIND = "default"
"""The kind of tasks that have none."""
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
    wrong: str = ""
    """What the feedback says is wrong with the answer, if it tells no reference answer."""

    @property
    def aim(self) -> str:
        """What is known of a better answer."""
        return self.right or self.wrong

    def told(self) -> str:
        """Task, answer, and the right answer or what is wrong; of long texts start and end."""
        known = f"Right answer: {self.right}"
        if not self.right:
            known = f"What is wrong: {shorten(self.wrong, ROOM)}"
        return (
            f"Task: {shorten(self.task, ROOM)}\n"
            f"Answered: {shorten(self.said, ROOM) or '(nothing)'}\n{known}"
        )


def case_of(rollout: Rollout) -> Case | None:
    """The attempt as a case; None when it has no score."""
    if not isinstance(rollout.outcome, Score) or rollout.trajectory is None:
        return None
    asked = [message.text for message in rollout.trajectory.messages if message.role == "user"]
    score = rollout.outcome
    said = _answer_in(rollout.trajectory.answer)
    right = _lone_line(said) if score.passed else expected_in(score.feedback)
    return Case(
        rollout.task,
        rollout.kind,
        asked[0] if asked else "",
        said,
        right,
        score.passed,
        wrong="" if right else score.feedback,
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def _lone_line(said: str) -> str:
    """An answer that is nothing else; which part of a longer reply was right is not known."""
    return said if said.isprintable() else ""


def _answer_in(reply: str) -> str:
    """What stands in the last `<answer>` tag, if there is one: what is around it does not count."""
    return [reply, *tagged(reply, "answer")][-1].strip()


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
SHOWN = 6
"""Failed cases of a group that one question shows."""
LABELS = 12
"""More different answers than this are no closed set."""
_LABEL = 24
"""Characters of an answer that is one of such a set, at most."""
_QUESTION = 160
"""Characters of a question that a rule quotes, at most."""
_LONG = 12
"""Words from which on an answer is a text, whatever it is made of."""
_FEW = 3
"""Tasks that a word must stand in to be a part of a question, and not what it is about."""
_END = 400
"""Characters at both ends of a task in which its question is looked for."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019 -]+[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Group:
    """Failed cases that have something in common, and solved ones of the same sort."""

    name: str
    failed: list[Case] = field(default_factory=list[Case])
    solved: list[Case] = field(default_factory=list[Case])


def grouped(cases: Sequence[Case]) -> list[Group]:
    """The failed cases of which more is known than that, in groups; those with most failures first.

    Cases are alike by their kind, the wording of their question and the shape of the right answer,
    or of what is wrong with the given one; many that are alike in all of this are told apart by the
    shape of the given answer.
    """
    known = [case for case in cases if case.aim]
    groups: list[Group] = []
    for kind, part in split(known, lambda case: case.kind).items():
        name = "" if kind == NO_KIND else kind
        groups += _pooled(name, _by_question(name, part))
    groups.sort(key=lambda group: -len(group.failed))
    return groups[:GROUPS]


def shape_of(answer: str) -> str:
    """What an answer is made of: digits, capitals, lower case, and the marks between them."""
    if len(answer.split()) >= _LONG:
        return "a text"
    return _LETTERS.sub(_case, _NUMBER.sub("9", " ".join(answer.split())))


def _case(letters: re.Match[str]) -> str:
    text = letters[0]
    return "A" if text.isupper() else "a" if text.islower() else "Aa"


def questions_of(tasks: Sequence[str]) -> list[str]:
    """What each task asks, in the words that it shares with others of its sort; or nothing.

    A question may stand before or after its context, and name something else in every task. So it
    is the sentence that most tasks share, but not all, where a word of few tasks counts as a gap.
    Sentences with a question mark go before others; one that all tasks share is the question of
    all, whatever else some of them share.
    """
    sentences = [_sentences(task) for task in tasks]
    holding = Counter(word for said in sentences for word in {w for s in said for w in s.words})
    usual = {word for word, times in holding.items() if times >= max(_FEW, len(tasks) // 8)}
    wordings = [
        {wording: s.asks for s in said for wording in s.wordings(usual)} for said in sentences
    ]
    sharing = Counter(wording for each in wordings for wording in each)
    asked = {wording for each in wordings for wording, asks in each.items() if asks}
    if any(sharing[wording] == len(tasks) for wording in asked):
        return [""] * len(tasks)

    def shared(each: dict[str, bool]) -> str:
        found = [wording for wording in each if 1 < sharing[wording] < len(tasks)]
        return max(found, key=lambda wording: (each[wording], sharing[wording]), default="")

    return [shared(each) for each in wordings]


class _Sentence(NamedTuple):
    words: list[str]
    asks: bool

    def wordings(self, usual: Set[str]) -> list[str]:
        """With gaps for unusual words, unless they are more than a third; and as it is."""
        gaps = [word if word in usual else "..." for word in self.words]
        few = 3 * gaps.count("...") <= len(gaps)
        return [
            *([" ".join(word for word, _ in groupby(gaps))] if few else []),
            " ".join(self.words),
        ]


def _sentences(task: str) -> list[_Sentence]:
    ends = task if len(task) <= 2 * _END else f"{task[:_END]}\n{task[-_END:]}"
    parts = _SENTENCE.split(_NUMBER.sub("9", ends.casefold()))
    found = [_Sentence(_WORD.findall(part), part.endswith("?")) for part in parts]
    return [sentence for sentence in found if {*sentence.words} - {"9"}]


def by_question(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """By a question that several cases ask, unless all of them do; the rest by an empty one."""
    asked = dict(zip(cases, questions_of([case.task for case in cases]), strict=True))
    return split(cases, asked.__getitem__)


def _by_question(name: str, cases: Sequence[Case]) -> list[Group]:
    groups: list[Group] = []
    for question, part in by_question(cases).items():
        groups += _by_shape(_named(name, f'"{question}"' if question else ""), part)
    return groups


def _by_shape(name: str, cases: Sequence[Case]) -> list[Group]:
    """By the shape of the right answer; labels of a closed set are told apart only together."""
    labels = {case.aim for case in cases}
    if len(labels) <= LABELS and 2 * len(labels) <= len(cases):
        return [_group(name or "one of a few labels", cases)]
    groups: list[Group] = []
    for shape, part in split(cases, lambda case: shape_of(case.aim)).items():
        groups += _by_given(_group(_named(name, f"answer like {shape}"), part))
    return groups


def _by_given(group: Group) -> list[Group]:
    """More failures than one question shows, by the shape of the given answer."""
    if len(group.failed) <= SHOWN:
        return [group]
    shapes = split(group.failed, lambda case: shape_of(case.said))
    large = {shape: part for shape, part in shapes.items() if 2 * len(part) >= SHOWN}
    rest = [case for shape, part in shapes.items() if shape not in large for case in part]
    if len(large) + bool(rest) == 1:
        return [group]
    parts = [
        Group(_named(group.name, f"given like {shape}"), part, group.solved)
        for shape, part in large.items()
    ]
    return [*parts, *([Group(group.name, rest, group.solved)] if rest else [])]


def _pooled(name: str, groups: Sequence[Group]) -> list[Group]:
    """Groups with a failure; failures that are alone with theirs go together."""
    several = [group for group in groups if len(group.failed) > 1]
    alone = [group for group in groups if len(group.failed) == 1]
    if len(alone) <= 1:
        return [*several, *alone]
    rest = [case for group in alone for case in group.failed]
    return [*several, Group(_named(name, "several sorts"), rest)]


def _group(name: str, cases: Sequence[Case]) -> Group:
    failed = [case for case in cases if not case.passed]
    return Group(name, failed, [case for case in cases if case.passed])


def labels_of(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases of a closed set of short answers, by their right answer; empty if it is no such set."""
    found = split(cases, lambda case: case.right)
    few = 1 < len(found) <= LABELS and 2 * len(found) <= len(cases)
    return found if few and all(map(_may_be_label, found)) else {}


def _may_be_label(answer: str) -> bool:
    return 0 < len(answer) <= _LABEL and answer.isprintable()


def shared_question(cases: Sequence[Case]) -> str:
    """The question that most of the tasks ask in the same words, as it is written; or nothing."""
    asked = Counter(
        sentence
        for case in cases
        for sentence in dict.fromkeys(_raw_sentences(case.task))
        if sentence.endswith("?") and len(sentence) <= _QUESTION
    )
    sentence, times = next(iter(asked.most_common(1)), ("", 0))
    return sentence if 2 * times > len(cases) and not {"<", '"'} & set(sentence) else ""


def without(task: str, question: str) -> str:
    """The task in one line, without its question where something else is left."""
    rest = " ".join(sentence for sentence in _raw_sentences(task) if sentence != question)
    return rest or one_line(task)


def _raw_sentences(task: str) -> list[str]:
    return [one_line(part) for part in _SENTENCE.split(task) if part.strip()]


def _named(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def contrasting(cases: Sequence[Case], most: int) -> list[Case]:
    """So many cases, as different as possible; in order of appearance.

    Different by the right answer if some have the same one, or else by the shape of the given one.
    """
    alike = list(split(cases, lambda case: case.aim).values())
    if len(alike) == len(cases):
        alike = list(split(cases, lambda case: shape_of(case.said)).values())
    rounds = max(map(len, alike), default=0)
    chosen = [part[n] for n in range(rounds) for part in alike if n < len(part)][:most]
    return [case for case in cases if case in chosen]
