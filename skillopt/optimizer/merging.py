"""Several proposers, and their findings as one set of proposals: merged by a model, or united."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skillopt.aio import map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import Change
from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import Finding, Proposal, ProposalSet, Source
from skillopt.core.rollout import Batches
from skillopt.core.seeds import blocks
from skillopt.core.sink import Phase
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.reflect import proposer_cost, proposer_size
from skillopt.optimizer.replies import EDITS, Form
from skillopt.optimizer.sections import memory_sections, proposals_section
from skillopt.prompts.ask import Asker, PromptQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Merger `model`: asks; support is counted from the evidence, whatever a model claims."""

    asker: Asker
    merge_batch_size: int = 8
    form: Form = EDITS

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        """However the findings fall to the two trees."""
        most = max(
            self._questions(failures)
            + self._questions(size.findings - failures)
            + (0 < failures < size.findings)
            for failures in range(size.findings + 1)
        )
        prompt = f"merge_failure{self.form.suffix}"
        yield PartCost("merge", Range(0, most), prompt, shown=1280, whole=self.form.whole)

    def _questions(self, leaves: int) -> int:
        asked = 0
        while leaves > 1:
            full, rest = divmod(leaves, self.merge_batch_size)
            asked += full + (rest > 1)
            leaves = full + (rest > 0)
        return asked

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ProposalSet:
        """One set, in which failures have priority over successes."""
        with self.asker.sink.phase("aggregate") as progress:
            merging = _Merging(self, progress, skill, memory)
            sources: list[Source] = ["failure", "success"]

            async def climb(source: Source) -> ProposalSet:
                leaves = [
                    ProposalSet(finding.proposals, finding.reasoning)
                    for finding in findings
                    if finding.source == source and finding.proposals
                ]
                return await merging.tree(leaves, f"merge_{source}")

            failure, success = await map_all(climb, sources)
            if not failure.proposals or not success.proposals:
                top = failure if failure.proposals else success
                return replace(top, problems=failure.problems + success.problems)
            return await merging.merge([failure, success], "merge_final")


@dataclass(frozen=True, slots=True)
class _Merging:
    to: Aggregate
    progress: Phase
    skill: Skill
    memory: Memory

    async def tree(self, sets: list[ProposalSet], prompt: str) -> ProposalSet:
        """Merge level by level until one is left; one alone needs no question."""

        async def join_chunk(chunk: Sequence[ProposalSet]) -> ProposalSet:
            return chunk[0] if len(chunk) == 1 else await self.merge(chunk, prompt)

        while len(sets) > 1:
            sets = await map_all(join_chunk, blocks(sets, self.to.merge_batch_size))
        return sets[0] if sets else ProposalSet()

    async def merge(self, sets: Sequence[ProposalSet], prompt: str) -> ProposalSet:
        """One question; without a usable answer the proposals stand side by side."""
        given, form = united(sets), self.to.form
        question = PromptQuestion(
            stage="merge",
            prompt=prompt + form.suffix,
            sections=[
                form.show(self.skill),
                *memory_sections(self.memory),
                proposals_section(given.proposals),
            ],
            shape=form.merge,
            check=lambda answer: answer.complaint(given),
            max_tokens=form.max_tokens,
        )
        answer = await self.to.asker.answer(question, self.progress)
        if isinstance(answer, Unusable):
            return replace(given, problems=(*given.problems, str(answer)))
        merged = [_merged(item.change(), item.why, item.sources, given) for item in answer.items]
        return ProposalSet(tuple(merged), answer.reasoning, given.problems)


def united(sets: Sequence[ProposalSet]) -> ProposalSet:
    """All proposals in order; the same one made twice becomes one with the support of both."""
    kept: dict[Change, Proposal] = {}
    for proposal in (proposal for one in sets for proposal in one.proposals):
        first = kept.setdefault(proposal.edit, proposal)
        if first is not proposal:
            tasks = tuple(sorted({*first.tasks, *proposal.tasks}))
            kept[proposal.edit] = replace(first, tasks=tasks)
    reasoning = "\n\n".join(one.reasoning for one in sets if one.reasoning)
    problems = tuple(problem for one in sets for problem in one.problems)
    return ProposalSet(tuple(kept.values()), reasoning, problems)


def _merged(change: Change, why: str, sources: Sequence[int], given: ProposalSet) -> Proposal:
    parents = [given.proposals[index] for index in sources]
    failed = any(parent.source == "failure" for parent in parents)
    return replace(
        parents[0],
        edit=change,
        source="failure" if failed else "success",
        tasks=tuple(sorted({task for parent in parents for task in parent.tasks})),
        why=why or parents[0].why,
        level=max(parent.level for parent in parents) + 1,
    )


class Union:
    """Merger `union`: asks nothing; equal edits become one with the support of all."""

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ProposalSet:
        return united([ProposalSet(finding.proposals, finding.reasoning) for finding in findings])


@dataclass(frozen=True, slots=True)
class Several:
    """Asks every proposer about the same attempts; findings keep the order of proposers."""

    proposers: tuple[Proposer, ...]

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        for proposer in self.proposers:
            yield from proposer_cost(proposer, size)

    def proposes(self, size: StepSize) -> StepSize:
        sizes = [proposer_size(proposer, size) for proposer in self.proposers]
        return replace(
            size,
            findings=sum(part.findings for part in sizes),
            proposals=sum(part.proposals for part in sizes),
            deletions=any(part.deletions for part in sizes),
        )

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        """All findings, numbered anew."""

        async def ask(proposer: Proposer) -> tuple[Finding, ...]:
            return await proposer(skill, batches, memory, budget=budget)

        counts = {"failure": 0, "success": 0}
        numbered: list[Finding] = []
        for findings in await map_all(ask, self.proposers):
            for finding in findings:
                numbered.append(replace(finding, number=counts[finding.source]))
                counts[finding.source] += 1
        return tuple(numbered)


@dataclass(frozen=True, slots=True)
class Portfolio(Several):
    """Asks the first proposer as long as its steps bear fruit, and after a success again.

    After `after` steps in a row without an accepted candidate it asks the next one, and so on
    around. What was accepted is read from the run's memory, so a continued run agrees.
    """

    after: int

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        """One of them has its turn; which one shows only then."""
        return (cost.perhaps() for cost in Several(self.proposers).cost(size))

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        turn = memory.fruitless // self.after % len(self.proposers)
        return await self.proposers[turn](skill, batches, memory, budget=budget)
