"""Skill-aware reflection: a missing rule becomes an edit, an ignored rule a reminder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skillopt.core.costs import MAYBE, PartCost, StepSize
from skillopt.core.memory import Memory, meaning_of_note
from skillopt.core.proposal import Finding, ReminderUpdate, Source
from skillopt.core.reminders import new_reminders
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.replies import Reasoned
from skillopt.optimizer.sections import notes_section, skill_section
from skillopt.prompts.ask import Asker, PromptQuestion

_PROMPTS: dict[Source, str] = {"failure": "lapses_failure", "success": "lapses_success"}


class ConsolidatedNotes(Reasoned):
    consolidated_notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminders:
    """Gathers the reminders of a step for the appendix of its candidate."""

    asker: Asker
    failure_only: bool = False
    """Whether only failed attempts may give rise to reminders."""
    threshold: int = 0
    """Above so many reminders the list is compacted; 0: never."""

    def prompts(self, source: Source) -> tuple[str, ...]:
        """What an analyst of these attempts is told about reminders."""
        return () if self.failure_only and source == "success" else (_PROMPTS[source],)

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        if self.threshold:
            yield PartCost("reminders", MAYBE, "appendix_consolidate", 2000)

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ReminderUpdate:
        """The appendix with what is new and not disproved."""
        disproved = memory.disproved
        said = [note for finding in findings for note in finding.notes]
        new = [note for note in said if meaning_of_note(note) not in disproved]
        added = new_reminders(new, skill.notes)
        after = (*skill.notes, *added)
        if not added or not 0 < self.threshold < len(after):
            return ReminderUpdate(added, after)
        return await self._compact(skill, added, after)

    async def _compact(
        self, skill: Skill, added: tuple[str, ...], notes: tuple[str, ...]
    ) -> ReminderUpdate:
        def complaint(answer: ConsolidatedNotes) -> str:
            count = len(new_reminders(answer.consolidated_notes, ()))
            return "" if 0 < count < len(notes) else f"there should be 1 to {len(notes) - 1} notes."

        question = PromptQuestion(
            stage="appendix_consolidate",
            sections=[skill_section(skill), notes_section(notes)],
            shape=ConsolidatedNotes,
            check=complaint,
        )
        answer = await self.asker.answer(question, "consolidate")
        if isinstance(answer, Unusable):
            return ReminderUpdate(added, notes, problem=str(answer))
        shorter = new_reminders(answer.consolidated_notes, ())
        return ReminderUpdate(added, shorter, len(notes) - len(shorter))
