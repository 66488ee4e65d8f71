"""The morning report: what a night saw, learnt and proposes, in the order a reader asks for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, TypeAlias

from skillopt.core.chat import Usage
from skillopt.core.wording import counted
from skillopt.gates.statistics import Interval
from skillopt_sleep.gathering import Gathered
from skillopt_sleep.learning import Allowance, Lesson, Trial
from skillopt_sleep.values import MinedTask

_SHOWN: Final = 90
"""Characters of a text that a list or table shows."""
_TOP: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillGroup:
    """A skill that sessions used, and what became of it in a night."""

    name: str
    outcome: str
    """`learnt`, `unchanged`, `failed`; or why it could not be found: `missing`, `ambiguous`, ..."""
    tasks: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """Everything that a night has to tell."""

    night: int
    project: Path
    agent: str
    started: datetime
    ended: datetime
    gathered: Gathered
    practised: tuple[MinedTask, ...] = ()
    """Tasks that were attempted, with dreams and recalled ones."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tasks that could not be attempted, by reason."""
    lessons: tuple[Lesson, ...] = ()
    groups: tuple[SkillGroup, ...] = ()
    spent: Usage = field(default_factory=Usage)
    allowance: Allowance = field(default_factory=Allowance)
    notes: tuple[str, ...] = ()
    staging: Path | None = None
    adopted: tuple[Path, ...] = ()
    estimate: str = ""
    """What a night would take, if this one was only looked at."""
    simulated: bool = False
    adopt_command: str = ""
    rollback_command: str = ""
    """It takes back what was adopted at once."""

    @property
    def accepted(self) -> bool:
        return any(lesson.accepted for lesson in self.lessons)

    @property
    def failed(self) -> bool:
        """Whether nothing at all could be measured."""
        return bool(self.lessons) and all(lesson.failed for lesson in self.lessons)

    @property
    def verdict(self) -> str:
        """The night in one sentence."""
        if self.estimate:
            return "This is what a night would see. Nothing was practised and nothing written."
        if not self.lessons:
            return self.notes[0] if self.notes else "Nothing was practised."
        learnt = [lesson for lesson in self.lessons if lesson.accepted]
        if learnt:
            named = " and ".join(called(lesson) for lesson in learnt)
            return f"Something was learnt: {named} got better on held-out tasks."
        if self.failed:
            return f"The night failed: {self.lessons[0].failed}"
        stopped = next((lesson for lesson in self.lessons if lesson.stopped), None)
        if stopped is not None and not stopped.trials:
            return "Nothing changed: a limit of the night was reached before anything was decided."
        if any(lesson.trials for lesson in self.lessons):
            return "Nothing changed: no candidate was surely better on held-out tasks."
        return "Nothing changed: no rule was found that helps."


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A diff or a command."""

    text: str
    kind: str = ""


Block: TypeAlias = Heading | Paragraph | Listing | Grid | Verbatim


def told(night: Night) -> list[Block]:
    """The report in parts, in the order of what a reader wants to know first."""
    when = night.started.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    blocks: list[Block] = [Heading(f"Night {night.night}: {night.project.name}, {when}", 1)]
    if night.simulated:
        blocks.append(Paragraph("SIMULATED models: these scores say nothing about a real one."))
    blocks.append(Paragraph(night.verdict))
    if night.adopted:
        named = ", ".join(str(path) for path in night.adopted)
        blocks.append(Paragraph(f"Adopted: {named}. To take it back:"))
        blocks.append(Verbatim(night.rollback_command, "sh"))
    elif night.accepted and night.adopt_command:
        blocks += [Paragraph("To adopt it:"), Verbatim(night.adopt_command, "sh")]
    blocks += _seen(night)
    if night.lessons:
        blocks.append(Heading("What was learnt"))
        for lesson in night.lessons:
            blocks += _learnt(lesson)
    if night.groups:
        rows = [(group.name, group.outcome, str(group.tasks), group.why) for group in night.groups]
        blocks += [
            Heading("Skills that sessions used"),
            Grid(("skill", "outcome", "tasks", "why"), tuple(rows)),
        ]
    blocks += _cost(night)
    if notes := tuple(note for note in night.notes if note != night.verdict):
        blocks += [Heading("Notes"), Listing(notes)]
    return blocks


def _seen(night: Night) -> Iterator[Block]:
    gathered = night.gathered
    yield Heading("What was seen")
    sources = ", ".join(f"{name} {count}" for name, count in gathered.sources.items())
    sessions = counted(gathered.sessions, "session") + (f" ({sources})" if sources else "")
    skipped = ", ".join(f"{count} {reason}" for reason, count in gathered.skipped.items())
    yield Paragraph(f"{sessions}{f'; left out: {skipped}' if skipped else ''}.")
    splits = [
        f"{sum(task.split == split for task in night.practised)} {split}"
        for split in ("train", "val", "test")
    ]
    unused = ", ".join(f"{count}: {reason}" for reason, count in night.left_out.items())
    asked = any(lesson.spent.calls or lesson.score_before for lesson in night.lessons)
    verb = "practised" if asked else "could be practised"
    practised = f"; {verb}: {', '.join(splits)}" if night.practised else ""
    yield Paragraph(
        f"{counted(len(gathered.tasks), 'task')}{practised}"
        f"{f'; not practised: {unused}' if unused else ''}."
    )
    ranked = sorted(gathered.tasks, key=lambda task: (-task.frequency, -task.pain))[:_TOP]
    if ranked:
        rows = tuple(
            (_short(task.intent), str(task.frequency), f"{task.pain:.1f}", task.reference.kind)
            for task in ranked
        )
        yield Grid(("task", "times", "pain", "checked by"), rows)


def _learnt(lesson: Lesson) -> Iterator[Block]:
    yield Heading(f"{called(lesson)}: {_outcome(lesson)}", 3)
    yield Paragraph(str(lesson.path))
    if lesson.failed:
        yield Paragraph(f"It could not be learnt: {lesson.failed}")
    if lesson.score_before and lesson.score_after and lesson.gain:
        yield Grid(
            ("", "score", "95 % interval", "tasks"),
            (
                ("before", *_figures(lesson.score_before), _count(lesson)),
                ("after", *_figures(lesson.score_after), _count(lesson)),
                ("gain, paired", *_figures(lesson.gain, signed=True), _count(lesson)),
            ),
        )
        if lesson.accepted and lesson.split == "val":
            yield Paragraph(
                "These tasks chose what was accepted, so its score is a little too good; with "
                "test_fraction, tasks that nothing was chosen by tell it."
            )
        if lesson.failures:
            yield Paragraph(
                f"Without a score: {counted(lesson.failures, 'attempt')} (missing, not wrong)."
            )
    if lesson.accepted:
        yield Verbatim(diff(lesson), "diff")
    trials = [(_tried(trial), *_decided(trial)) for trial in lesson.trials]
    if trials:
        yield Grid(("tried", "score", "decision", "why"), tuple(trials))
    lost = tuple(_short(text) for trial in lesson.trials for text in trial.unmatched)
    if lost:
        yield Paragraph("Edits that changed nothing:")
        yield Listing(lost)
    changed = [task for task in lesson.tasks if task.before != task.after]
    if changed:
        yield Grid(
            ("task that changed", "before", "after"),
            tuple((_short(task.intent), _mark(task.before), _mark(task.after)) for task in changed),
        )
    if lesson.stopped:
        yield Paragraph(f"Learning ended early: {lesson.stopped}")


def _cost(night: Night) -> Iterator[Block]:
    seconds = (night.ended - night.started).total_seconds()
    spent, left = night.spent, night.allowance
    used = spent.input + spent.output
    limits = [
        f"{used:,} tokens" + ("" if left.tokens is None else f" of {left.tokens:,}"),
        f"{seconds / 60:.1f} minutes" + ("" if left.minutes is None else f" of {left.minutes:g}"),
    ]
    if spent.dollars or left.dollars is not None:
        limits.append(
            f"${spent.dollars:,.2f}" + ("" if left.dollars is None else f" of ${left.dollars:,.2f}")
        )
    yield Heading("What it took")
    yield Paragraph(f"{counted(spent.calls, 'call')}, {', '.join(limits)}.")
    if night.estimate:
        yield Paragraph(f"A night would take {night.estimate}.")


def diff(lesson: Lesson) -> str:
    """What changes in the learnt part of a document."""
    lines = difflib.unified_diff(
        lesson.before.splitlines(), lesson.after.splitlines(), "now", "proposed", lineterm="", n=2
    )
    return "\n".join(lines)


def called(lesson: Lesson) -> str:
    """A document as people call it."""
    names = {"skill": "the skill", "memory": "the memory file"}
    return names.get(lesson.target, f"the skill {lesson.target}")


def _outcome(lesson: Lesson) -> str:
    if lesson.failed:
        return "failed"
    if lesson.accepted:
        return "better"
    return "unchanged"


def _figures(score: Interval, *, signed: bool = False) -> tuple[str, str]:
    form = "{:+.3f}" if signed else "{:.3f}"
    ends = "[{:+.2f}, {:+.2f}]" if signed else "[{:.2f}, {:.2f}]"
    return form.format(score.mean), ends.format(score.low, score.high)


def _count(lesson: Lesson) -> str:
    return f"{lesson.n_test if lesson.split == 'test' else lesson.n_val} {lesson.split}"


def _tried(trial: Trial) -> str:
    return _short("; ".join(trial.edits)) or trial.move


def _decided(trial: Trial) -> tuple[str, str, str]:
    most = "at most " if trial.bounded else ""
    verdict = "accepted" if trial.accepted else "rejected"
    return f"{trial.before:.3f} to {most}{trial.after:.3f}", verdict, trial.reason


def _mark(score: float | None) -> str:
    return "no score" if score is None else f"{score:.2f}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1].rstrip()}…"
