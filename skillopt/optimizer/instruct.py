"""Proposer `instruct`, for small models: one group of failures, one instruction in return.

A small model that is asked for edits as JSON often edits the tasks instead. Asked for one sentence,
it writes a rule. The edit is made from it here; trials and the gate decide about it. Of codes it
mixes up which stands for what, so it is asked about the tasks of each code by themselves, and one
rule is put together from what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from skillopt.aio import TaskGroup, map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import Append
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Proposal
from skillopt.core.rollout import Batches
from skillopt.core.sink import Phase
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate as tokens_in
from skillopt.errors import Unusable
from skillopt.optimizer.cases import (
    GROUPS,
    LABELS,
    ROOM,
    SHOWN,
    Case,
    Group,
    contrasting,
    grouped,
    labels_of,
    read_cases,
    shared_question,
    without,
)
from skillopt.prompts.ask import Asker
from skillopt.prompts.digest import shorten

_SOLVED = 2
"""Solved ones, which show what is right already."""
_MOST_SHOWN = (SHOWN + _SOLVED) * 3 * ROOM
"""Tokens of the cases in one question, at most."""
_TEXTS = 8
"""Tasks of a code that one question shows."""
_MOST_SUBJECTS = 8
"""In one reply."""
_SUBJECT = re.compile(r"[^\W\d_][\w'-]*(?: [\w'-]+){0,5}")
"""One thing that tasks are about: up to six words, and no markup."""
_SHORTEST, _LONGEST = 4, 60
"""Words of an instruction."""
_TEMPERATURE = 0.8
"""Of all samples but the first."""
_CODES = 3
"""From so many codes on, each is asked about by itself."""
_LISTED = 160
"""Tokens of a list of subjects."""
_TOLD = 200
"""Characters of a reply that cannot be used, as it is told."""
_LEAD = re.compile(r"^(?:\**instruction:?\**:?|[-*]|\d+[.)])\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruct:
    """Asks several times for one instruction per group of failed tasks."""

    asker: Asker
    samples: int = 3

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        prompt = tokens_in(self.asker.prompts.text("instruct"))
        asked = self._groups(size) * self.samples
        most = [min(LABELS, len(batch) // 2) for batch in size.batches]
        described = self.samples * sum(labels for labels in most if labels >= _CODES)
        yield PartCost(
            "labels",
            Range(0, described, described / 10),
            "labels",
            asked=Range(50, SHOWN * ROOM, 2 * ROOM),
            answer=Range(5, _LISTED, 20),
        )
        yield PartCost(
            "instructions",
            Range(0, 2 * asked, asked / 2),
            "instruct",
            asked=Range(50, _MOST_SHOWN + prompt, 0.15 * _MOST_SHOWN + prompt),
            answer=Range(5, 160, 25),
        )

    def proposes(self, size: StepSize) -> StepSize:
        groups = self._groups(size)
        return replace(size, findings=groups, proposals=groups * self.samples, deletions=False)

    def _groups(self, size: StepSize) -> int:
        return sum(min(GROUPS, len(batch)) for batch in size.batches)

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        """One finding per group of tasks that failed."""
        groups: list[tuple[int, Group]] = []
        for batch, stream in enumerate(batches):
            groups += [(batch, group) for group in grouped(await read_cases(stream))]
        with self.asker.sink.phase("reflect", len(groups) * self.samples) as progress:

            async def find(number: int) -> Finding:
                batch, group = groups[number]
                return await self._find(group, batch, number, progress)

            return tuple(await map_all(find, range(len(groups))))

    async def _find(self, group: Group, batch: int, number: int, progress: Phase) -> Finding:
        shown = [*contrasting(group.failed, SHOWN), *contrasting(group.solved, _SOLVED)]

        async def sample(replicate: int) -> str:
            said = await self._sample(shown, replicate)
            progress.tick("done" if said else "failed")
            return said

        async with TaskGroup() as questions:
            rule_for_codes = questions.start(self._codes(group))
            said = await map_all(sample, range(self.samples))
            codes = await rule_for_codes
        read = [instruction_in(reply, shown) for reply in said]
        rules = dict.fromkeys(instruction.rule for instruction in read if not instruction.problem)
        if codes:
            rules[codes] = None
        unused = [
            f"not used, {instruction.problem}: {instruction.rule!r}"
            for instruction in read
            if instruction.problem
        ]
        tasks = tuple(sorted(case.id for case in group.failed))
        pattern = Pattern(f"wrong: {group.name}", len(group.failed), "", tasks)
        return Finding(
            source="failure",
            batch=batch,
            number=number,
            tasks=tasks,
            reasoning="\n".join(unused) if rules else "",
            patterns=(pattern,),
            proposals=tuple(
                Proposal(Append(f"- {rule}"), "failure", tasks, pattern.name, by="instruct")
                for rule in rules
            ),
            problem="" if rules else f"no usable instruction came back; {'; '.join(unused)}",
        )

    async def _sample(self, cases: Sequence[Case], replicate: int) -> str:
        return await self._say("instruct", "\n\n".join(case.told() for case in cases), replicate)

    async def _say(self, prompt: str, shown: str, replicate: int) -> str:
        temperature = _TEMPERATURE if replicate else 0.0
        try:
            return await self.asker.say(
                "analyst", prompt, shown, temperature=temperature, replicate=replicate
            )
        except Unusable:
            return ""

    async def _codes(self, group: Group) -> str:
        """A rule that says of each code what its tasks are about; empty where there is none."""
        labels = labels_of([*group.failed, *group.solved])
        if len(labels) < _CODES:
            return ""
        question = shared_question([case for cases in labels.values() for case in cases])
        texts = {
            label: [shorten(without(case.task, question), ROOM) for case in cases]
            for label, cases in sorted(labels.items())
        }

        async def subjects(label: str) -> list[str]:
            shown = "\n".join(f"- {text}" for text in texts[label][:_TEXTS])
            said = await map_all(
                lambda replicate: self._say("labels", shown, replicate), range(self.samples)
            )
            return [subject for reply in said for subject in subjects_in(reply)]

        found = dict(zip(texts, await map_all(subjects, list(texts)), strict=True))
        return rule_of_codes(question, telling(found, texts))


_ARTICLE = re.compile(r"^(?:an?|the) ")
_BULLET = re.compile(r"(?:[-*\u2022]|\d{1,3}[.)])[ \t]{1,8}")
_PARTS = re.compile(r"[,;:\u3001\uff0c]|\band\b")


def subjects_in(reply: str) -> list[str]:
    """The items of a list: in the first line, or in the lines with bullets."""
    lines = [line.strip() for line in reply.split("\n") if line.strip()]
    bullets = [line for line in lines if _BULLET.match(line)]
    listed = bullets if len(bullets) > 1 else lines[:1]
    parts = chain(*(_PARTS.split(_BULLET.sub("", line)) for line in listed))
    found = (_ARTICLE.sub("", part.strip(" .\"'*`").lower()) for part in parts)
    return [part for part in found if _SUBJECT.fullmatch(part)][:_MOST_SUBJECTS]


def telling(
    subjects: Mapping[str, Sequence[str]], texts: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Subjects without repetitions, without those of all labels and words that all tasks have."""
    common = set[str].intersection(*(set(_stems(" ".join(said))) for said in texts.values()))
    shared = set[str].intersection(*map(set, subjects.values()))
    return {
        label: [
            subject
            for subject in dict.fromkeys(found)
            if subject not in shared and common.isdisjoint(_stems(subject))
        ]
        for label, found in subjects.items()
    }


def rule_of_codes(question: str, subjects: Mapping[str, Sequence[str]]) -> str:
    """One rule that says when each code is right; empty if that is not known of each."""
    if not all(subjects.values()):
        return ""
    asked = f'When asked "{question}"' if question else f"Where {_either(subjects)} is right"
    cases = "; ".join(f"{label} if it is about {', '.join(it)}" for label, it in subjects.items())
    return f"{asked}, answer with one of these codes and nothing else: {cases}."


def _either(labels: Iterable[str]) -> str:
    *others, last = labels
    return f"{', '.join(others)} or {last}"


def _stems(text: str) -> list[str]:
    """Words that say something: short ones, such as prepositions, stand in any text."""
    found = _WORD.findall(text.casefold())
    return [word.removesuffix("s") for word in found if len(word) > 3]


_WORD = re.compile(r"[^\W\d_]+")
_GREEDY = re.compile(r"\b(?:all|any|every)\s+(?:tasks?|questions?|cases?|notes?)\b", re.IGNORECASE)
"""An instruction drawn from one kind of task that claims all of them."""


class Instruction(NamedTuple):
    """What a reply says to do, and why it cannot be used, if so."""

    rule: str
    problem: str = ""


def instruction_in(reply: str, cases: Sequence[Case]) -> Instruction:
    """The instruction in a reply: it must be short, general, and of no single task."""
    text = _LEAD.sub("", reply.strip())
    text = text.split("\n\n", 1)[0].replace("\n", " ").strip().strip('"')
    sentences = re.split(r"(?<=[.!?])\s+", text)
    text = " ".join(sentences[:2]).strip()
    problem = _problem(text, cases)
    return Instruction(text[:_TOLD] if problem else text, problem)


def _problem(text: str, cases: Sequence[Case]) -> str:
    words = len(text.split())
    if words < _SHORTEST:
        return "too short" if text else "empty"
    if words > _LONGEST:
        return "too long"
    if "<" in text:
        return "markup"
    if _GREEDY.search(text):
        return "it claims every task"
    copied = any(len(case.task) > 20 and case.task[:40] in text for case in cases)
    return "it repeats a task" if copied else ""
