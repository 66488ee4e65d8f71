"""Several proposers in parallel."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, replace

from skillopt.aio import map_all
from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import Finding, ProposalSet
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.gradient.aggregate import united


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
