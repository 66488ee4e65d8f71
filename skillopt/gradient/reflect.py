"""Scored attempts to findings: minibatches of failures and of successes, read by an analyst."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field

from skillopt.aio import Nursery, join, nursery
from skillopt.core.journal import Phase
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Proposal, Source
from skillopt.core.rollout import Rollout, Score
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.prompts.ask import Asker, Question
from skillopt.prompts.replies import Analysis
from skillopt.prompts.sections import (
    attempt_sections,
    budget_section,
    memory_sections,
    skill_section,
)

_PROMPTS: dict[Source, str] = {"failure": "analyst_error", "success": "analyst_success"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect:
    """Asks about a minibatch as soon as the attempts before it, in their fixed order, are done.

    So reflection overlaps the rest of the rollout and still does not depend on who finished first.
    """

    asker: Asker
    minibatch: int = 8
    failure_only: bool = False

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int,
    ) -> tuple[Finding, ...]:
        """Findings on failures first, then on successes, each kind in order."""
        with self.asker.journal.phase("reflect") as progress:
            async with nursery() as group:
                desk = _Desk(self, group, progress, skill, memory, budget)
                for number, batch in enumerate(batches):
                    await desk.read(number, batch)
                failure, success = desk.asked["failure"], desk.asked["success"]
                return tuple(await join([*failure, *success]))

    async def analyse(
        self, desk: _Desk, source: Source, place: tuple[int, int], group: list[Rollout]
    ) -> Finding:
        """One question about one minibatch."""
        batch, number = place
        tasks = tuple(each.task for each in group)
        sections = [
            skill_section(desk.skill),
            *memory_sections(desk.memory),
            budget_section(desk.budget),
            *attempt_sections(group, self.asker.digest),
        ]
        question = Question(
            stage="analyst", prompt=_PROMPTS[source], sections=sections, shape=Analysis
        )
        try:
            answer = await self.asker.ask(question)
        except Unusable as error:
            desk.progress.tick("failed")
            return Finding(
                source=source, batch=batch, number=number, tasks=tasks, problem=str(error)
            )
        desk.progress.tick()
        return Finding(
            source=source,
            batch=batch,
            number=number,
            tasks=tasks,
            reasoning=answer.reasoning,
            patterns=tuple(
                Pattern(each.name, each.count, each.description, _known(each.tasks, tasks))
                for each in answer.patterns
            ),
            proposals=tuple(
                Proposal(each.edit(), source, _known(each.tasks, tasks), each.why)
                for each in answer.edits[: desk.budget]
            ),
        )


@dataclass(frozen=True, slots=True)
class _Desk:
    """One reflection under way: attempts come in, questions go out."""

    reflect: Reflect
    group: Nursery
    progress: Phase
    skill: Skill
    memory: Memory
    budget: int
    asked: dict[Source, list[asyncio.Task[Finding]]] = field(
        default_factory=lambda: {"failure": [], "success": []}
    )

    async def read(self, number: int, batch: AsyncIterable[Rollout]) -> None:
        """Deal the attempts of a micro-batch to two piles; a full pile becomes a question."""
        piles: dict[Source, list[Rollout]] = {"failure": [], "success": []}
        async for rollout in batch:
            if not isinstance(rollout.outcome, Score):
                continue
            source: Source = "success" if rollout.outcome.passed else "failure"
            piles[source].append(rollout)
            if len(piles[source]) == self.reflect.minibatch:
                self._ask(number, source, piles[source])
                piles[source] = []
        for source, pile in piles.items():
            if pile:
                self._ask(number, source, pile)

    def _ask(self, batch: int, source: Source, pile: list[Rollout]) -> None:
        if source == "success" and self.reflect.failure_only:
            return
        place = batch, len(self.asked[source])
        work = self.reflect.analyse(self, source, place, pile)
        self.asked[source].append(self.group.start(work))


def _known(named: Sequence[str], tasks: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks that an answer names and that were really shown; all of them when it names none."""
    shown = sorted(set(named) & set(tasks))
    return tuple(shown or sorted(tasks))
