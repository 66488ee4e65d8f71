"""Every task under every skill that was measured: outcomes, flips and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from skillopt.core.events import Begun, Fact, FinalTested
from skillopt.core.facts import Stepped
from skillopt.core.rollout import Evaluation, Failure, Score
from skillopt.core.task import Split

PASSED, WRONG, PARTLY, FAILED, OWN, NOTHING = "1", "0", "~", "x", "!", "."
"""Outcomes of a task in one character each: passed, wrong, some attempts passed or a part of the
marks, failed by infrastructure (no score), failed with this skill only (counts as 0), not tried."""

ItemCourse: TypeAlias = Literal[
    "fixed", "regressed", "flipped", "always wrong", "not tried again", "always right", "not tried"
]
"""What became of a task over the skills that were kept, oldest first.

Fixed: wrong at first and passed at last; regressed: the other way round; flipped: as at first, but
not always in between; not tried again: wrong with earlier skills, not tried with the latest.
"""
COURSES: tuple[ItemCourse, ...] = (
    "regressed", "fixed", "flipped", "always wrong", "not tried again", "always right", "not tried",
)  # fmt: skip
INFRASTRUCTURE = "failed by infrastructure"
"""A filter besides the courses: an attempt has no score."""


@dataclass(frozen=True, slots=True)
class ItemColumn:
    """A skill that was measured."""

    skill: str
    """Its digest."""
    name: str
    """Where it came from first: `initial_skill`, `step_0003`."""
    step: int
    kept: bool
    """Whether it became current."""


@dataclass(frozen=True, slots=True)
class ItemRow:
    task: str
    split: Split
    cells: str
    """An outcome for each column, a character each."""
    course: ItemCourse
    flips: int
    """How often the outcome changed from one kept skill to the next that tried it."""
    failed: bool
    """Whether an attempt failed by infrastructure."""


@dataclass(frozen=True, slots=True)
class ItemTable:
    """Tasks by skills. Rows with the same course stand together, those with most flips first."""

    columns: tuple[ItemColumn, ...]
    rows: tuple[ItemRow, ...]
    counts: Mapping[str, int]
    """Rows by course, and those that failed by infrastructure."""

    def only(self, chosen: str) -> list[ItemRow]:
        """The rows with a course, or those that failed by infrastructure."""
        if chosen == INFRASTRUCTURE:
            return [row for row in self.rows if row.failed]
        return [row for row in self.rows if row.course == chosen]


@dataclass(slots=True)
class ItemMatrix:
    """Takes in fact by fact; what is kept grows with what was measured, not with the steps."""

    columns: dict[str, ItemColumn] = field(default_factory=dict[str, ItemColumn])
    """By digest, in the order in which skills were measured first."""
    cells: dict[tuple[Split, str], dict[str, str]] = field(
        default_factory=dict[tuple[Split, str], dict[str, str]]
    )
    """By split and task: outcomes by digest."""

    def add(self, fact: Fact) -> None:
        if isinstance(fact, Begun):
            self._column(fact.initial.skill.digest, fact.initial.origin, 0, kept=True)
        if (met := fact.decision) is not None:
            found = met.candidate
            self._column(found.skill.digest, found.origin, found.step, kept=met.accepted)
        for evaluation in fact.evaluations:
            self._take(evaluation, fact)

    def table(self) -> ItemTable:
        kept = [column.skill for column in self.columns.values() if column.kept]
        rows = [self._row(split, task, kept) for split, task in self.cells]
        rows.sort(key=lambda row: (COURSES.index(row.course), -row.flips, row.split, row.task))
        counts = Counter[str](row.course for row in rows)
        counts[INFRASTRUCTURE] = sum(row.failed for row in rows)
        return ItemTable(tuple(self.columns.values()), tuple(rows), dict(counts))

    def _column(self, skill: str, name: str, step: int, *, kept: bool) -> None:
        known = self.columns.get(skill)
        if known is None or (kept and not known.kept):
            name, step = (known.name, known.step) if known else (name, step)
            self.columns[skill] = ItemColumn(skill, name, step, kept)

    def _take(self, evaluation: Evaluation, fact: Fact) -> None:
        skill = evaluation.skill
        if skill not in self.columns:
            self._column(skill, fact.move, fact.step, kept=isinstance(fact, Stepped | FinalTested))
        for task, score in evaluation.scores.items():
            own = task in evaluation.own_failures
            self._put(evaluation.split, task, skill, OWN if own else outcome_of(score))
        for task in evaluation.failures:
            self._put(evaluation.split, task, skill, FAILED)

    def _put(self, split: Split, task: str, skill: str, outcome: str) -> None:
        cells = self.cells.setdefault((split, task), {})
        # An attempt that failed says nothing against a score that is there.
        if outcome != FAILED or skill not in cells:
            cells[skill] = outcome

    def _row(self, split: Split, task: str, kept: list[str]) -> ItemRow:
        cells = self.cells[split, task]
        known = [cells[skill] == PASSED for skill in kept if cells.get(skill, FAILED) != FAILED]
        again = bool(kept) and cells.get(kept[-1], FAILED) != FAILED
        flips = sum(one != other for one, other in pairwise(known))
        text = "".join([cells.get(skill, NOTHING) for skill in self.columns])
        return ItemRow(task, split, text, _course(known, again), flips, FAILED in text)


def outcome_of(score: Score | Failure) -> str:
    if isinstance(score, Failure):
        return FAILED
    if score.passed:
        return PASSED
    return PARTLY if score.hard > 0 else WRONG


def _course(known: list[bool], again: bool) -> ItemCourse:  # noqa: FBT001 - of this file
    if not known:
        return "not tried"
    if known[0] != known[-1]:
        return "fixed" if known[-1] else "regressed"
    if len(set(known)) > 1:
        return "flipped"
    if known[0]:
        return "always right"
    return "always wrong" if again else "not tried again"
