"""Meta reflect: edits from a review of everything that an epoch tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from skillopt.core.costs import MAYBE, PartCost, StepSize
from skillopt.core.memory import Memory
from skillopt.core.proposal import Candidate, Draft, Proposal, ProposalSet, Selection
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.replies import EditAnswer, Reasoned, Words
from skillopt.optimizer.sections import (
    budget_section,
    directions_section,
    memory_sections,
    skill_section,
)
from skillopt.optimizer.selection import RepeatFilter
from skillopt.optimizer.update import Patch
from skillopt.prompts.ask import Asker, PromptQuestion


class MetaReflectAnswer(Reasoned):
    directions: Words = Field(default_factory=list[str])
    edits: list[EditAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaReflect:
    """One question over the accepted and rejected directions of an epoch."""

    asker: Asker
    update: Patch

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        yield PartCost("meta reflect", MAYBE, "meta_reflect", 2000)

    async def rethink(
        self, skill: Skill, memory: Memory, *, epoch: int, budget: int | None
    ) -> Draft:
        """At most `budget` higher-level edits, applied; asks nothing where nothing was tried."""
        tried = memory.of_epoch(epoch)
        if budget == 0 or not any(
            entry.accepted or entry.rejected or entry.undecided for entry in tried.steps
        ):
            return Draft(budget=budget)
        question = PromptQuestion(
            stage="meta_reflect",
            sections=[
                skill_section(skill),
                *memory_sections(memory),
                budget_section(budget),
                directions_section(tried),
            ],
            shape=MetaReflectAnswer,
        )
        answer = await self.asker.answer(question, "meta_reflect")
        if isinstance(answer, Unusable):
            return Draft(budget=budget, merged=ProposalSet(problems=(str(answer),)))
        repeat_filter = RepeatFilter.of(memory)
        proposals = tuple(
            Proposal(edit.change(), "failure", why=edit.why, by="meta_reflect")
            for edit in answer.edits[:budget]
        )
        reasoning = "\n".join(
            [answer.reasoning, *(f"- {direction}" for direction in answer.directions)]
        )
        merged = repeat_filter.bundle(ProposalSet(proposals, reasoning.strip()))
        chosen = Selection(merged.proposals)
        applied = await self.update(skill, chosen, memory) if merged.proposals else None
        return Draft(
            budget=budget,
            merged=merged,
            candidates=(
                Candidate(
                    chosen=chosen,
                    report=applied.report if applied else (),
                    skill=applied.skill if applied else None,
                ),
            ),
            repeats=tuple(repeat_filter.held),
        )
