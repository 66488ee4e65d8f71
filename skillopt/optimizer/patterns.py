"""Proposer `patterns`: rules found in the evidence without a model.

What all right answers of a kind have in common, and the given answers lack, becomes a rule: a
format, a set of labels, worked examples. Worked examples come from training tasks only. Trials and
the gate decide about each proposal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from skillopt.core.costs import PartCost, StepSize
from skillopt.core.edits import Append, Delete, Edit
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Proposal
from skillopt.core.rollout import Batches
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.optimizer.cases import (
    LABELS,
    NO_KIND,
    Case,
    by_question,
    labels_of,
    one_line,
    read_cases,
    split,
)

_FEW = 2
"""Cases of a kind from which on a common form counts as one."""
_RULES = 3
"""Rules that a finding yields at most."""
_SHOWN = 4
"""Examples in a rule, at most."""
_SHOWN_LABELS = 6
"""The same where each shows another label of a closed set."""
_BULLET = re.compile(r"^[ \t]*[-*+][ \t]+\S.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Proposes what the answers themselves show."""

    asks_model: ClassVar[bool] = False

    def cost(self, size: StepSize) -> tuple[PartCost, ...]:
        return ()

    def proposes(self, size: StepSize) -> StepSize:
        kinds = sum(_kinds(batch) for batch in size.batches)
        findings = kinds + len(size.batches)
        return replace(size, findings=findings, proposals=_RULES * findings)

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        """One finding per kind of task that failed."""
        findings: list[Finding] = []
        for batch, stream in enumerate(batches):
            all_cases = await read_cases(stream)
            for kind, cases in _sorts(all_cases).items():
                failed = [case for case in cases if not case.passed and case.right]
                if len(failed) >= _FEW:
                    name = f"wrong {kind or 'default'}"
                    if edits := _edits(kind, cases, failed):
                        findings.append(_finding(batch, len(findings), name, failed, edits))
            if blamed := _blamed(skill, [case for case in all_cases if not case.passed]):
                wordy = [case for case in all_cases if not case.passed and case.right]
                edits = [Delete(line) for line in blamed]
                findings.append(_finding(batch, len(findings), "wordy answers", wordy, edits))
        return tuple(findings)


def _kinds(tasks: Sequence[Task]) -> int:
    """At most so many sorts: tasks without a kind may ask different questions."""
    named = {task.kind for task in tasks if task.kind != NO_KIND}
    return len(named) + sum(task.kind == NO_KIND for task in tasks) // _FEW


def _sorts(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """By kind; without one by the question, in quotes. A rule needs words that say when it holds.

    So what has neither is left out, unless that is every task.
    """
    sorts: dict[str, list[Case]] = {}
    for kind, part in split(cases, lambda case: case.kind).items():
        if kind == NO_KIND:
            found = by_question(part)
            sorts |= {f'"{question}"': some for question, some in found.items() if question}
        else:
            sorts[kind] = part
    return sorts or {"": list(cases)}


def _finding(
    batch: int, number: int, name: str, failed: Sequence[Case], edits: Sequence[Edit]
) -> Finding:
    tasks = tuple(sorted(case.id for case in failed))
    return Finding(
        source="failure",
        batch=batch,
        number=number,
        tasks=tasks,
        patterns=(Pattern(name, len(failed), "", tasks),),
        proposals=tuple(
            Proposal(
                edit,
                "failure",
                _not_shown(edit, failed) or tasks,
                name,
                by="patterns",
                asked=False,
            )
            for edit in edits
        ),
    )


def _not_shown(edit: Edit, failed: Sequence[Case]) -> tuple[str, ...]:
    """Tasks that are no example in the rule: their answers could be read there."""
    text = edit.content if isinstance(edit, Append) else ""
    return tuple(sorted(case.id for case in failed if one_line(case.task) not in text))


def _edits(kind: str, cases: Sequence[Case], failed: Sequence[Case]) -> list[Edit]:
    known = [case for case in cases if case.right]
    right = [case.right for case in known]
    rules = form_of(right, [case.said for case in failed])
    edits: list[Edit] = []
    if rules:
        shortest = min(right, key=lambda answer: (len(answer), answer))
        told = f"{_asked(kind)}, {', '.join(rules)}"
        edits = [Append(f"- {told}, such as {shortest}."), Append(f"- {told}.")]
    # What a code stands for, and what becomes of a value, is in no form: examples show it.
    if examples := _examples(known):
        shown = "" if rules else " as in these examples"
        lead = f"{_asked(kind)}, {', '.join(rules or ['answer with only that and no other words'])}"
        worked = Append(f"- {lead}{shown}. {' '.join(examples)}")
        edits = [worked, *edits] if labels_of(known) else [*edits, worked]
    return edits


def _asked(kind: str) -> str:
    if not kind:
        return "In every task"
    return f"When asked {kind}" if kind[0] == '"' else f"When asked for {_article(kind)}{kind}"


def _article(kind: str) -> str:
    return "" if kind.startswith(("a ", "an ", "the ")) else "the "


def form_of(right: Sequence[str], said: Sequence[str]) -> list[str]:
    """What all right answers share and the given ones lack, as phrases of an instruction."""
    found: list[str] = []
    for phrase in _phrases(right):
        if phrase.fits(right) and not phrase.fits(said):
            found.append(phrase.text)
            if phrase.says_all:
                break
    if len(right) >= _FEW and _wordy(right, said):
        found.append("answer with only that and no other words")
    return found


@dataclass(frozen=True, slots=True)
class _Phrase:
    text: str
    test: Callable[[str], bool]
    says_all: bool = True

    def fits(self, answers: Sequence[str]) -> bool:
        return bool(answers) and all(self.test(answer) for answer in answers)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda answer: bool(compiled.fullmatch(answer.strip()))


def _phrases(right: Sequence[str]) -> Iterator[_Phrase]:
    """Forms that answers may have, the most telling first."""
    yield _Phrase("write the date as YYYY-MM-DD", _matches(r"\d{4}-\d\d-\d\d"))
    yield _Phrase("write the date as DD.MM.YYYY", _matches(r"\d\d\.\d\d\.\d{4}"))
    yield _Phrase("write the time as HH:MM on a 24-hour clock", _matches(r"[0-2]\d:[0-5]\d"))
    yield _Phrase("answer with yes or no in capitals", _matches(r"YES|NO"))
    counts = Counter(right)
    few = 1 < len(counts) <= LABELS and max(map(len, counts)) <= 24 and len(right) > len(counts)
    if few and all(map(str.isprintable, right)) and not all(map(_VALUE, right)):
        labels = sorted(counts)
        yield _Phrase(f"answer with one of {', '.join(labels)}", lambda a: a.strip() in counts)
    unit = _shared_unit(right)
    if unit:
        number = r"-?\d+(?:[.,]\d+)?"
        yield _Phrase(
            f"write the number, a space and {unit}", _matches(rf"{number} {re.escape(unit)}")
        )
    decimals = {len(answer.strip().partition(".")[2]) for answer in right}
    if len(decimals) == 1 and decimals != {0}:
        (places,) = decimals
        yield _Phrase(
            f"write the number with {places} decimal{'s' if places > 1 else ''} and no unit",
            _matches(rf"-?\d+\.\d{{{places}}}"),
        )
    yield _Phrase("write only the number, without unit or separator", _matches(r"-?\d+"))
    yield _Phrase(
        "use capital letters", lambda a: a.strip().isupper() and a.isascii(), says_all=False
    )
    yield _Phrase("use small letters", lambda a: a.strip().islower(), says_all=False)


_VALUE = _matches(r"-?\d+(?:[.,]\d+)?(?: \D{1,8})?")
"""A number, with a unit or without one: a few of them are no labels."""


def _shared_unit(right: Sequence[str]) -> str:
    found = [re.fullmatch(r"-?\d+(?:[.,]\d+)? (\D{1,8})", answer.strip()) for answer in right]
    units = {match[1] for match in found if match}
    return units.pop() if len(units) == 1 and all(found) else ""


def _wordy(right: Sequence[str], said: Sequence[str]) -> bool:
    """Whether answers are plainly longer than they should be."""
    typical = sorted(map(len, right))[len(right) // 2]
    return sum(len(answer) > 2 * typical + 3 for answer in said) * 2 > len(said)


def _examples(known: Sequence[Case]) -> list[str]:
    """Short cases with different answers; enough are left that none of them is needed to try it."""
    seen: dict[str, str] = {}
    for case in sorted(known, key=lambda case: len(case.task)):
        plain = case.right.isprintable() and '"' not in case.task and len(case.task) <= 160
        if plain and case.right not in seen:
            seen[case.right] = f'"{one_line(case.task)}" is {case.right}.'
    return list(seen.values())[
        : _SHOWN_LABELS if labels_of(known) else min(_SHOWN, len(known) // 2)
    ]


def _blamed(skill: Skill, failed: Sequence[Case]) -> list[str]:
    """Lines of the skill that ask for more words, when wordy answers are what failed."""
    known = [case for case in failed if case.right]
    if len(known) < _FEW or not _wordy([c.right for c in known], [c.said for c in known]):
        return []
    talkative = re.compile(r"explain|sentence|polite|detail|friendly|greet|helpful", re.IGNORECASE)
    return [line.strip() for line in _BULLET.findall(skill.body) if talkative.search(line)]
