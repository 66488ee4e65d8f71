"""What the optimizer remembers between steps, and when two wordings count as the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from skillopt.core.edits import Append, Change, Delete, InsertAfter, Replace, Rewrite, Suggestion
from skillopt.core.proposal import Pattern
from skillopt.core.reminders import bare
from skillopt.core.rollout import Evaluation

_OPENING = "\"'`*_([{\u201c\u2018"
_CLOSING = "\"'`*_)]}\u201d\u2019.,;:!?"
_FILLERS = frozenset(("a", "an", "the", "please", "just", "also", "very", "simply"))
_WORD = re.compile(r"[^\W_]+")
_ALIKE = 0.75
"""Share of common words above which two texts are taken for two wordings of one thing."""


def words(text: str) -> tuple[str, ...]:
    """The words of a rule without marks, fillers and ordinary capitals.

    What may be the very point of a rule stays: the order of words, marks within them (2024-01-31
    is not 2024.01.31), and capitals that are not just the first of a word (Y, P1, ISO).
    """
    bare = (piece.lstrip(_OPENING).rstrip(_CLOSING) for piece in text.split())
    folded = (word.casefold() if word[1:].islower() or word in "AI" else word for word in bare)
    return tuple(
        word for word in folded if word not in _FILLERS and any(letter.isalnum() for letter in word)
    )


def similar(one: str, other: str) -> bool:
    """Whether two texts share most of their words: enough to list them as one, no more."""
    ours, theirs = _stems(one), _stems(other)
    if not ours or not theirs:
        return ours == theirs
    return len(ours & theirs) / len(ours | theirs) >= _ALIKE


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    found = {word.casefold() for word in _WORD.findall(text)} - _FILLERS
    return frozenset(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found)


Meaning: TypeAlias = tuple[str | tuple[str, ...], ...]
"""Equal for edits that do the same, in whatever dress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """One step, as later steps should remember it."""

    step: int
    action: str
    n_total: int = 0
    n_fail: int = 0
    epoch: int = 0
    kind: str = "step"
    """What is remembered in words; all but steps come after the step that is named."""
    patterns: tuple[Pattern, ...] = ()
    score_before: float | None = None
    score_after: float | None = None
    bounded: bool = False
    """Whether `score_after` is an upper bound."""
    accepted: tuple[Change, ...] = ()
    rejected: tuple[Change, ...] = ()
    rejected_notes: tuple[str, ...] = ()
    undecided: tuple[Change, ...] = ()
    """Tried, and nothing is known of them: the gate could not tell, or they stood on a parent that
    is worse than the current skill."""
    one_by_one: bool = False
    """Whether each edit was rejected for itself, and not the sum of them: by a person."""

    @property
    def blamed(self) -> tuple[Meaning, ...]:
        """Everything that was rejected together in this step."""
        return (*map(meaning, self.rejected), *map(meaning_of_note, self.rejected_notes))


@dataclass(frozen=True, slots=True)
class Seen:
    """A pattern of failures over all remembered steps, in its latest words."""

    pattern: Pattern
    last: int
    """The step in which it was seen last."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """An edit that was rejected, in its latest words; wordings that are alike count as one."""

    edit: Change
    times: int
    last: int
    """The step in which it was rejected last."""
    alone: bool
    """Whether it was once rejected with no other edit beside it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The steps of the run or epoch; the lessons (the meta skill) and volatility of the run."""

    steps: tuple[MemoryEntry, ...] = ()
    lessons: str = ""
    volatility: float = 0.0
    """How much of what recent candidates changed was for the worse, 0 to 1."""
    fruitless: int = 0
    """Steps in a row that did not change the skill; epochs do not break the row."""
    sparing: bool = False
    """Whether so little may be spent that proposals are tried on few tasks, and nothing is asked in
    several ways."""
    refused: int = 0
    """How many of these had a candidate, which the gate refused."""
    solved: frozenset[str] = frozenset()
    """Training tasks that passed when they were last attempted in a step."""
    doubted: frozenset[str] = frozenset()
    """Those of them that passed with an earlier skill: the changes since may have broken them."""

    @property
    def vain(self) -> float:
        """Steps in vain, as patience counts them.

        A refused candidate counts half: there was something to try, and it may have been refused
        for one bad edit, or by chance.
        """
        return self.fruitless - self.refused / 2

    def after_step(
        self, *, accepted: bool, practice: Mapping[str, bool], refused: bool = False
    ) -> Memory:
        """Count a step, in which training tasks passed or failed."""
        passed = {task for task, passed in practice.items() if passed}
        solved = (self.solved - practice.keys()) | passed
        return replace(
            self,
            fruitless=0 if accepted else self.fruitless + 1,
            refused=0 if accepted else self.refused + refused,
            solved=solved,
            doubted=solved if accepted else self.doubted - practice.keys(),
        )

    def afresh(self) -> Memory:
        """The skill was changed from outside: what passed is in doubt, and no step was in vain."""
        return replace(self, fruitless=0, refused=0, doubted=self.solved)

    def remember(self, entry: MemoryEntry) -> Memory:
        return replace(self, steps=(*self.steps, entry))

    def update_volatility(self, before: Evaluation, after: Evaluation) -> Memory:
        """Take in how a candidate changed single tasks; older steps count half each time."""
        return replace(self, volatility=(self.volatility + regression_share(before, after)) / 2)

    def start_epoch(self, lessons: str | None, *, forgets: bool) -> Memory:
        """Start an epoch: keep or replace lessons, keep or forget steps other than a person's."""
        kept = self.lessons if lessons is None else lessons
        steps = tuple(entry for entry in self.steps if entry.one_by_one or not forgets)
        return replace(self, steps=steps, lessons=kept)

    def of_epoch(self, epoch: int) -> Memory:
        """The same memory, with the steps of one epoch only."""
        return replace(self, steps=tuple(each for each in self.steps if each.epoch == epoch))

    @property
    def disproved(self) -> frozenset[Meaning]:
        """Edits and reminders that need not be tried again.

        They are tried together, so blame is shared: a rejected bundle of n puts 1/n on each of its
        edits. At a whole one, an edit counts as disproved: rejected once alone, twice in pairs, or
        by a person. An edit that is accepted later is cleared of what was put on it before.
        """
        blame: dict[Meaning, Fraction] = {}
        for entry in self.steps:
            for edit in entry.accepted:
                blame.pop(meaning(edit), None)
            tried = entry.blamed
            for each in tried:
                share = Fraction(1, 1 if entry.one_by_one else len(tried))
                blame[each] = blame.get(each, Fraction()) + share
        return frozenset(each for each, share in blame.items() if share >= 1)

    @property
    def patterns(self) -> tuple[Seen, ...]:
        """Patterns of failures, those of the latest step first, and of these the most frequent."""
        found: list[Seen] = []
        for entry in self.steps:
            for pattern in entry.patterns:
                _unite(found, pattern, entry.step)
        return tuple(sorted(found, key=lambda each: (-each.last, -each.pattern.count)))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """Rejected edits, the most often rejected first, and of these the latest."""
        return _rejections(self.steps)


def meaning(change: Change) -> Meaning:
    """What an edit does; where text is added matters little, what it takes the place of does."""
    match change:
        case Append(content) | InsertAfter(_, content):
            return "add", words(content)
        case Replace(target, content):
            return "replace", words(target), words(content)
        case Delete(target):
            return "delete", words(target)
        case Suggestion(instruction=instruction):
            return "suggest", words(instruction)
        case Rewrite(body=body):
            return "rewrite", words(body)


def meaning_of_note(note: str) -> Meaning:
    """What a reminder says; it repeats no edit, because it stands elsewhere."""
    return "note", bare(note)


def _unite(found: list[Seen], pattern: Pattern, step: int) -> None:
    for index, known in enumerate(found):
        if similar(known.pattern.name, pattern.name):
            count = known.pattern.count + pattern.count
            tasks = tuple(sorted({*known.pattern.tasks, *pattern.tasks}))
            found[index] = Seen(replace(pattern, count=count, tasks=tasks), step)
            return
    found.append(Seen(pattern, step))


@lru_cache(maxsize=8)
def _rejections(steps: tuple[MemoryEntry, ...]) -> tuple[Rejection, ...]:
    """Kept, because every question to the optimizer asks for them."""
    found: list[Rejection] = []
    for entry in steps:
        alone = entry.one_by_one or len(entry.blamed) == 1
        for edit in entry.rejected:
            _count(found, Rejection(edit, 1, entry.step, alone))
    return tuple(sorted(found, key=lambda each: (-each.times, -each.last)))


def _count(found: list[Rejection], new: Rejection) -> None:
    for index, known in enumerate(found):
        comparable = meaning(known.edit)[0] == meaning(new.edit)[0]
        if comparable and similar(text_of(known.edit), text_of(new.edit)):
            alone = known.alone or new.alone
            found[index] = replace(new, times=known.times + 1, alone=alone)
            return
    found.append(new)


def text_of(change: Change) -> str:
    """The words of an edit: what it adds and what it takes away."""
    match change:
        case Append(content) | InsertAfter(_, content):
            return content
        case Replace(target, content):
            return f"{target} {content}"
        case Delete(target):
            return target
        case Suggestion(instruction=instruction):
            return instruction
        case Rewrite(title, summary):
            return " ".join([title, *summary])


def regression_share(before: Evaluation, after: Evaluation) -> float:
    """Of the tasks whose hard score changed, the share that got worse; 0 when none changed."""
    both = before.scores.keys() & after.scores.keys()
    changes = [after.scores[task].hard - before.scores[task].hard for task in both]
    changed = sum(change != 0 for change in changes)
    return sum(change < 0 for change in changes) / changed if changed else 0.0
