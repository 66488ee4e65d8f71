"""Reflection for small models: one failure pattern, a few short cases, one instruction in return.

Asked for edits as JSON, a small model edits the tasks. Asked for one sentence, it writes a rule;
the edit around it is made here, and trials and the gate judge it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass

from skillopt.aio import map_all
from skillopt.core.edits import Append
from skillopt.core.journal import Phase
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Proposal
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.gradient.evidence import SHORT, Case, by_kind, read_cases
from skillopt.prompts.ask import Asker

_CASES = 3
_LONGEST = 60
"""Words of an instruction."""
_LEAD = re.compile(r"^(?:\**instruction:?\**:?|[-*]|\d+[.)])\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Group:
    batch: int
    number: int
    kind: str
    failed: list[Case]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruct:
    """Asks several times for one instruction per kind of failed task."""

    asker: Asker
    samples: int = 3
    temperature: float = 0.8

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """One finding per kind of task that failed."""
        groups: list[_Group] = []
        for batch, stream in enumerate(batches):
            for kind, cases in by_kind(await read_cases(stream)).items():
                failed = [case for case in cases if not case.passed and case.right]
                if failed:
                    groups.append(_Group(batch, len(groups), kind, failed))
        with self.asker.journal.phase("reflect", len(groups) * self.samples) as progress:
            return tuple(await map_all(lambda group: self._find(group, progress), groups))

    async def _find(self, group: _Group, progress: Phase) -> Finding:
        shown = group.failed[:_CASES]
        tasks = tuple(case.id for case in shown)

        async def sample(number: int) -> str:
            said = await self._sample(shown, number)
            progress.tick("done" if said else "failed")
            return said

        said = await map_all(sample, range(self.samples))
        rules = dict.fromkeys(rule for each in said if (rule := instruction_in(each, shown)))
        pattern = Pattern(f"wrong {group.kind}", len(group.failed), "", tasks)
        return Finding(
            source="failure",
            batch=group.batch,
            number=group.number,
            tasks=tasks,
            patterns=(pattern,),
            proposals=tuple(
                Proposal(Append(f"- {rule}"), "failure", tasks, pattern.name, by="instruct")
                for rule in rules
            ),
            problem="" if rules else "no usable instruction came back",
        )

    async def _sample(self, cases: Sequence[Case], replicate: int) -> str:
        shown = "\n\n".join(_tell(number, case) for number, case in enumerate(cases, start=1))
        temperature = self.temperature if replicate else 0.0
        try:
            return await self.asker.say(
                "analyst", "instruct", shown, temperature=temperature, replicate=replicate
            )
        except Unusable:
            return ""


_GREEDY = re.compile(r"\b(?:all|any|every)\s+(?:tasks?|questions?|cases?|notes?)\b", re.IGNORECASE)
"""An instruction drawn from one kind of task that claims all of them."""


def instruction_in(reply: str, cases: Sequence[Case]) -> str:
    """The instruction in a reply, if it is one: short, general, and of no single task."""
    text = _LEAD.sub("", reply.strip())
    text = text.split("\n\n", 1)[0].replace("\n", " ").strip().strip('"')
    sentences = re.split(r"(?<=[.!?])\s+", text)
    text = " ".join(sentences[:2]).strip()
    words = text.split()
    if not 4 <= len(words) <= _LONGEST or "<" in text or _GREEDY.search(text):
        return ""
    copied = [case for case in cases if len(case.task) > 20 and case.task[:40] in text]
    return "" if copied else text


def _tell(number: int, case: Case) -> str:
    return (
        f"Case {number}\nTask: {case.task[:SHORT]}\n"
        f"The assistant answered: {case.said[:SHORT] or '(nothing)'}\nRight answer: {case.right}"
    )
