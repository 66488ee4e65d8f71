"""The proposals that fit into the learning rate, without those that were already disproved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from skillopt.core.costs import MAYBE, PartCost, StepSize
from skillopt.core.edits import Rewrite
from skillopt.core.memory import Meaning, Memory, meaning
from skillopt.core.proposal import Dropped, Finding, Proposal, ProposalSet, Selection
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.parts import Evidence
from skillopt.optimizer.replies import EDITS, Form, Reasoned
from skillopt.optimizer.sections import (
    budget_section,
    memory_sections,
    proposals_section,
    skill_section,
)
from skillopt.prompts.ask import Asker, PromptQuestion


@dataclass(slots=True)
class RepeatFilter:
    """Lets through what is new, and remembers what it held back."""

    disproved: frozenset[Meaning]
    held: list[Proposal] = field(default_factory=list[Proposal])

    @classmethod
    def of(cls, memory: Memory) -> RepeatFilter:
        """What is held back is fixed by the memory at the start of a step."""
        return cls(memory.disproved)

    def findings(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The same findings without proposals that repeat a disproved one."""
        return tuple(
            replace(finding, proposals=self._new(finding.proposals)) for finding in findings
        )

    def bundle(self, bundle: ProposalSet) -> ProposalSet:
        """The same set without them: a merge may have put one together again."""
        return replace(bundle, proposals=self._new(bundle.proposals))

    def _new(self, proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
        given = list(proposals)
        again = [proposal for proposal in given if meaning(proposal.edit) in self.disproved]
        self.held += again
        return tuple(proposal for proposal in given if proposal not in again)


ZERO = "the learning rate of this step is 0"


class Ranking(Reasoned):
    selected_indices: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Selector `ranking`: asks only when there is more than the budget allows."""

    asker: Asker
    form: Form = EDITS

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        if size.budget is not None:
            yield PartCost("ranking", MAYBE, f"ranking{self.form.suffix}", 2000)

    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        """At most `budget` proposals; without a usable ranking, those with most support."""
        if budget is None or len(merged.proposals) <= budget:
            return Selection(merged.proposals)
        if budget == 0:
            return replace(_chosen(merged, (), ZERO), indices=None)

        def usable(answer: Ranking) -> list[int]:
            """The known indices, each once, in the order given."""
            known = range(len(merged.proposals))
            return [index for index in dict.fromkeys(answer.selected_indices) if index in known]

        question = PromptQuestion(
            stage="ranking",
            prompt=f"ranking{self.form.suffix}",
            sections=[
                skill_section(skill),
                *memory_sections(memory),
                budget_section(budget),
                proposals_section(merged.proposals),
            ],
            shape=Ranking,
            check=lambda answer: "" if usable(answer) else "it selects no known index.",
        )
        answer = await self.asker.answer(question, "select")
        if isinstance(answer, Unusable):
            places = range(len(merged.proposals))
            by_support = sorted(places, key=lambda index: -merged.proposals[index].support)
            chosen = _chosen(merged, by_support[:budget], "others have more support")
            return replace(chosen, problem=str(answer))
        indices = usable(answer)[:budget]
        return _chosen(merged, indices, "the ranking put others first", answer.reasoning)


class OneBody:
    """The best supported body that has words: only one can be taken."""

    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        """Asks nothing; without words in any of them, the first stands for all."""
        worded = [
            proposal
            for proposal in merged.proposals
            if isinstance(proposal.edit, Rewrite) and proposal.edit.body.strip()
        ]
        best = sorted(worded, key=lambda proposal: -proposal.support)
        return Selection(tuple((best or list(merged.proposals))[:1]))


def _chosen(
    merged: ProposalSet, indices: Sequence[int], why: str, reasoning: str = ""
) -> Selection:
    """The proposals at these places; the others are left out for a reason."""
    others = [proposal for n, proposal in enumerate(merged.proposals) if n not in indices]
    return Selection(
        tuple(merged.proposals[n] for n in indices),
        reasoning,
        tuple(indices),
        dropped=tuple(Dropped(proposal, why) for proposal in others),
    )
