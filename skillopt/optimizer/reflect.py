"""Proposer `analyst`: reads minibatches of failed and of passed attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from typing_extensions import Self

from skillopt.aio import TaskGroup, join, task_group
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Probe, Proposal, Source
from skillopt.core.rollout import Rollout, Score
from skillopt.core.sink import Phase
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.forms import EDITS, Form
from skillopt.optimizer.probe import Probing
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.sections import (
    attempt_sections,
    budget_section,
    memory_sections,
    probe_section,
)
from skillopt.optimizer.tools import ProposerTools
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import Digest

_PROMPTS: dict[Source, str] = {"failure": "analyst_error", "success": "analyst_success"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectSettings:
    """The settings of `Reflect`."""

    minibatch_size: int = 8
    failure_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect:
    """Asks about a minibatch as soon as the attempts before it, in their fixed order, are done.

    So reflection overlaps the rest of the rollout and still does not depend on who finished first.
    """

    Settings: ClassVar[type[ReflectSettings]] = ReflectSettings
    edits_only: ClassVar[bool] = False
    writes_reminders: ClassVar[bool] = True
    reads_probes: ClassVar[bool] = True

    asker: Asker
    minibatch: int = 8
    failure_only: bool = False
    reminders: Reminders | None = None
    """Tells rules that are missing from rules that were ignored; None: all failures are edits."""
    probing: Probing | None = None
    """Looks into a few attempts first, which are chosen from all of the step; None: into none."""
    form: Form = EDITS

    @classmethod
    def from_settings(cls, settings: ReflectSettings, tools: ProposerTools) -> Self:
        """With all tools."""
        return cls(
            asker=tools.asker,
            minibatch=settings.minibatch_size,
            failure_only=settings.failure_only,
            reminders=tools.reminders,
            probing=tools.probing,
            form=tools.form,
        )

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        memory: Memory,
        *,
        budget: int | None,
    ) -> tuple[Finding, ...]:
        """Findings on failures first, then on successes, each kind in order."""
        probes: Mapping[str, Probe] = {}
        if self.probing is not None:
            probes = await self.probing(skill, batches)
        with self.asker.sink.phase("reflect") as progress:
            async with task_group() as group:
                reflection = _Reflection(self, group, progress, skill, memory, budget, probes)
                for number, batch in enumerate(batches):
                    await reflection.read(number, batch)
                failure, success = reflection.asked["failure"], reflection.asked["success"]
                return tuple(await join([*failure, *success]))

    async def analyse(
        self, reflection: _Reflection, source: Source, place: tuple[int, int], group: list[Rollout]
    ) -> Finding:
        """One question about one minibatch."""
        batch, number = place
        tasks = tuple(each.task for each in group)
        probes = tuple(reflection.probes[task] for task in tasks if task in reflection.probes)
        noted = self.reminders.prompts(source) if self.reminders else ()
        probed = ("probed",) if any(each.conclusion for each in probes) else ()
        sections = [
            self.form.show(reflection.skill),
            *memory_sections(reflection.memory),
            budget_section(reflection.budget),
            *_evidence(group, reflection.probes, self.asker.digest),
        ]
        question = PromptQuestion(
            stage="analyst",
            prompt=_PROMPTS[source] + self.form.suffix,
            sections=sections,
            shape=self.form.analysis,
            max_tokens=self.form.max_tokens,
            also=(*noted, *probed),
        )
        try:
            answer = await self.asker.ask(question)
        except Unusable as error:
            reflection.progress.tick("failed")
            return Finding(
                source=source,
                batch=batch,
                number=number,
                tasks=tasks,
                problem=str(error),
                probes=probes,
            )
        reflection.progress.tick()
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
                Proposal(each.change(), source, _known(each.tasks, tasks), each.why)
                for each in answer.items[: reflection.budget]
            ),
            notes=tuple(answer.appendix_notes[: reflection.budget]) if noted else (),
            probes=probes,
        )


@dataclass(frozen=True, slots=True)
class _Reflection:
    """One reflection under way: attempts come in, questions go out."""

    reflect: Reflect
    group: TaskGroup
    progress: Phase
    skill: Skill
    memory: Memory
    budget: int | None
    probes: Mapping[str, Probe]
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


def _evidence(
    rollouts: Sequence[Rollout], probes: Mapping[str, Probe], digest: Digest
) -> Iterator[str]:
    """The attempts, each with what was found out about it."""
    for rollout, shown in zip(rollouts, attempt_sections(rollouts, digest), strict=True):
        yield shown
        probe = probes.get(rollout.task)
        if probe and probe.conclusion:
            yield probe_section(probe)


def _known(named: Sequence[str], tasks: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks that an answer names and that were really shown; all of them when it names none."""
    shown = sorted(set(named) & set(tasks))
    return tuple(shown or sorted(tasks))
