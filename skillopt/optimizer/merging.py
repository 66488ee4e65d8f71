"""Many findings to one set of proposals: by merge questions, or by union without a model."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace

from skillopt.aio import map_all
from skillopt.core.edits import Change
from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import Finding, Proposal, ProposalSet, Source
from skillopt.core.rollout import Rollout
from skillopt.core.seeds import blocks
from skillopt.core.sink import Phase
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.forms import EDITS, Form
from skillopt.optimizer.sections import memory_sections, proposals_section
from skillopt.prompts.ask import Asker, PromptQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Merges by questions; support is counted from the evidence, whatever a model claims."""

    asker: Asker
    merge_batch: int = 8
    form: Form = EDITS

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ProposalSet:
        """One bundle, in which failures have priority over successes."""
        with self.asker.sink.phase("aggregate") as progress:
            merging = _Merging(self, progress, skill, memory)
            sources: list[Source] = ["failure", "success"]

            async def climb(source: Source) -> ProposalSet:
                leaves = [
                    ProposalSet(each.proposals, each.reasoning)
                    for each in findings
                    if each.source == source and each.proposals
                ]
                return await merging.tree(leaves, f"merge_{source}")

            failure, success = await map_all(climb, sources)
            if not failure.proposals or not success.proposals:
                top = failure if failure.proposals else success
                return replace(top, problems=failure.problems + success.problems)
            return await merging.merge([failure, success], "merge_final")


@dataclass(frozen=True, slots=True)
class _Merging:
    """One aggregation under way."""

    to: Aggregate
    progress: Phase
    skill: Skill
    memory: Memory

    async def tree(self, bundles: list[ProposalSet], prompt: str) -> ProposalSet:
        """Merge level by level until one is left; one alone needs no question."""

        async def join_chunk(chunk: Sequence[ProposalSet]) -> ProposalSet:
            return chunk[0] if len(chunk) == 1 else await self.merge(chunk, prompt)

        size = self.to.merge_batch
        while len(bundles) > 1:
            chunks = blocks(bundles, size)
            bundles = await map_all(join_chunk, chunks)
        return bundles[0] if bundles else ProposalSet()

    async def merge(self, bundles: Sequence[ProposalSet], prompt: str) -> ProposalSet:
        """One question; without a usable answer the proposals stand side by side."""
        given = united(bundles)
        form = self.to.form
        sections = [
            form.show(self.skill),
            *memory_sections(self.memory),
            proposals_section(given.proposals),
        ]
        question = PromptQuestion(
            stage="merge",
            prompt=prompt + form.suffix,
            sections=sections,
            shape=form.merge,
            check=lambda answer: answer.complaint(given),
            max_tokens=form.max_tokens,
        )
        try:
            answer = await self.to.asker.ask(question)
        except Unusable as error:
            self.progress.tick("failed")
            return replace(given, problems=(*given.problems, str(error)))
        self.progress.tick()
        merged = [_merged(each.change(), each.why, each.sources, given) for each in answer.items]
        return ProposalSet(tuple(merged), answer.reasoning, given.problems)


def united(bundles: Sequence[ProposalSet]) -> ProposalSet:
    """All proposals in order; the same one made twice becomes one with the support of both."""
    kept: dict[Change, Proposal] = {}
    for bundle in bundles:
        for each in bundle.proposals:
            known = kept.get(each.edit)
            if known is None:
                kept[each.edit] = each
            else:
                tasks = tuple(sorted({*known.tasks, *each.tasks}))
                kept[each.edit] = replace(known, tasks=tasks)
    reasoning = "\n\n".join(bundle.reasoning for bundle in bundles if bundle.reasoning)
    problems = tuple(problem for bundle in bundles for problem in bundle.problems)
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


@dataclass(frozen=True, slots=True)
class Several:
    """Asks every proposer about the same attempts; findings keep the order of proposers."""

    proposers: tuple[Proposer, ...]

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """All findings, numbered anew."""

        async def ask(proposer: Proposer) -> tuple[Finding, ...]:
            return await proposer(skill, batches, memory, budget=budget)

        found = [each for some in await map_all(ask, self.proposers) for each in some]
        counts = {"failure": 0, "success": 0}
        numbered: list[Finding] = []
        for finding in found:
            numbered.append(replace(finding, number=counts[finding.source]))
            counts[finding.source] += 1
        return tuple(numbered)


class Union:
    """Aggregation without a model: equal edits become one with the support of all."""

    async def __call__(
        self, skill: Skill, findings: Sequence[Finding], memory: Memory
    ) -> ProposalSet:
        """All proposals, failures first."""
        return united([ProposalSet(each.proposals, each.reasoning) for each in findings])


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Asks the first proposer as long as its steps bear fruit, and after a success again.

    After `after` steps in a row without an accepted candidate it asks the next one, and so on
    around. What was accepted is read from the run's memory, so a continued run agrees.
    """

    proposers: tuple[Proposer, ...]
    after: int

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """The findings of the one whose turn it is."""
        turn = memory.fruitless // self.after % len(self.proposers)
        return await self.proposers[turn](skill, batches, memory, budget=budget)
