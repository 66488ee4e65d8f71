"""Proposer `instruct`, for small models: one group of failures, one instruction in return.

A small model that is asked for edits as JSON often edits the tasks instead. Asked for one sentence,
it writes a rule. The edit is made from it here; trials and the gate decide about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from skillopt.aio import map_all
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
    ROOM,
    SHOWN,
    Case,
    Group,
    contrasting,
    grouped,
    read_cases,
)
from skillopt.prompts.ask import Asker

_SOLVED = 2
"""Solved ones, which show what is right already."""
_MOST_SHOWN = (SHOWN + _SOLVED) * 3 * ROOM
"""Tokens of the cases in one question, at most."""
_SHORTEST, _LONGEST = 4, 60
"""Words of an instruction."""
_TEMPERATURE = 0.8
"""Of all samples but the first."""
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

        said = await map_all(sample, range(self.samples))
        read = [instruction_in(reply, shown) for reply in said]
        rules = dict.fromkeys(instruction.rule for instruction in read if not instruction.problem)
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
        shown = "\n\n".join(case.told() for case in cases)
        temperature = _TEMPERATURE if replicate else 0.0
        try:
            return await self.asker.say(
                "analyst", "instruct", shown, temperature=temperature, replicate=replicate
            )
        except Unusable:
            return ""


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
