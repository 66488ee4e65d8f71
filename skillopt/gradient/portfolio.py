"""Proposers that take turns: after steps without success, the next one is used."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass

from skillopt.core.memory import Memory
from skillopt.core.ports import Proposer
from skillopt.core.proposal import Finding
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill


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
