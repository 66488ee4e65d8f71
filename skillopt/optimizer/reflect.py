"""Proposer `analyst`: reads minibatches of failed and of passed attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import ClassVar, Literal

from skillopt.aio import TaskGroup, join
from skillopt.core.costs import NONE, PartCost, Range, StepSize, TellsCost, TellsProposals
from skillopt.core.memory import Memory
from skillopt.core.proposal import Finding, Pattern, Probe, Proposal, Source
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.sink import Phase
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.likeness import Likeness, task_text
from skillopt.optimizer.probe import Probing
from skillopt.optimizer.reminders import Reminders
from skillopt.optimizer.replies import EDITS, Form
from skillopt.optimizer.sections import (
    attempt_sections,
    budget_section,
    memory_sections,
    probe_section,
)
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import Digest

_PROMPTS: dict[Source, str] = {"failure": "analyst_error", "success": "analyst_success"}
MINIBATCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect:
    """Asks about a minibatch as soon as the attempts before it, in their fixed order, are done.

    So reflection overlaps the rest of the rollout and still does not depend on who finished first.
    Minibatches of tasks that are alike are made when all attempts are there. The more steps or
    rounds in a row changed nothing, the smaller they are, and they are made in two sizes, unless
    little may be spent: what was not explained is asked about otherwise.
    """

    edits_only: ClassVar[bool] = False
    writes_reminders: ClassVar[bool] = True
    reads_probes: ClassVar[bool] = True

    asker: Asker
    minibatch_size: int = MINIBATCH
    minibatch_by: Literal["order", "likeness"] = "order"
    failure_only: bool = False
    reminders: Reminders | None = None
    """Tells rules that are missing from rules that were ignored; None: all failures are edits."""
    probing: Probing | None = None
    """Looks into a few attempts first, which are chosen from all of the step; None: into none."""
    form: Form = EDITS

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        if self.probing is not None:
            yield from self.probing.cost(size)
        minibatches = self._questions(size)
        shown = size.shown(self.minibatch_size)
        prompt = f"analyst_error{self.form.suffix}"
        yield PartCost("analysts", minibatches, prompt, shown, whole=self.form.whole)

    def proposes(self, size: StepSize) -> StepSize:
        most = self._questions(size).high
        return replace(size, findings=round(most), proposals=round(most) * size.allowed)

    def _questions(self, size: StepSize) -> Range:
        full = minibatches_of(size, self.minibatch_size, both=not self.failure_only)
        if self.minibatch_by == "order":
            return full
        # The more fruitless steps came before, the smaller they are; to be paid for once as a rule.
        single = minibatches_of(size, 1, both=not self.failure_only)
        return Range(full.low, 2 * single.high, full.expected)

    async def __call__(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> tuple[Finding, ...]:
        """Findings on failures first, then on successes, each kind in order."""
        probes: Mapping[str, Probe] = {}
        if self.probing is not None:
            probes = await self.probing(skill, batches)
        with self.asker.sink.phase("reflect") as progress:
            async with TaskGroup() as group:
                reflection = _Reflection(self, group, progress, skill, memory, budget, probes)
                for number, batch in enumerate(batches):
                    await reflection.read(number, batch)
                failure, success = reflection.asked["failure"], reflection.asked["success"]
                return tuple(await join([*failure, *success]))


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

    async def read(self, batch: int, rollouts: AsyncIterable[Rollout]) -> None:
        """Deal the attempts of a micro-batch to two piles; a full pile becomes a question."""
        piles: dict[Source, list[Rollout]] = {"failure": [], "success": []}
        alike = self.reflect.minibatch_by == "likeness"
        async for rollout in rollouts:
            if not isinstance(rollout.outcome, Score):
                continue
            source: Source = "success" if rollout.outcome.passed else "failure"
            piles[source].append(rollout)
            if not alike and len(piles[source]) == self.reflect.minibatch_size:
                self._ask(batch, source, piles[source])
                piles[source] = []
        for source, pile in piles.items():
            for minibatch in self._alike(pile) if alike else filter(None, [pile]):
                self._ask(batch, source, minibatch)

    def _alike(self, pile: Sequence[Rollout]) -> list[list[Rollout]]:
        """Minibatches of tasks that are alike."""
        most = min(self.reflect.minibatch_size, len(pile))
        memory = self.memory
        size = max(1, ceil(most / (1 + memory.fruitless)))
        half = ceil(size / 2)
        texts = {place: task_text(rollout) for place, rollout in enumerate(pile)}
        likeness = Likeness.among(texts.values())
        groups = {
            frozenset(group): group
            for size in ((size, half) if memory.fruitless and not memory.sparing else (size,))
            for group in likeness.groups(texts, size)
        }
        return [[pile[place] for place in group] for group in groups.values()]

    def _ask(self, batch: int, source: Source, minibatch: list[Rollout]) -> None:
        if source == "failure" or not self.reflect.failure_only:
            finding = Finding(
                source=source,
                batch=batch,
                number=len(self.asked[source]),
                tasks=tuple(rollout.task for rollout in minibatch),
            )
            self.asked[source].append(self.group.start(self._analyse(finding, minibatch)))

    async def _analyse(self, finding: Finding, minibatch: list[Rollout]) -> Finding:
        """The finding with the answer to one question about one minibatch."""
        asker, form, reminders = self.reflect.asker, self.reflect.form, self.reflect.reminders
        source, tasks = finding.source, finding.tasks
        probes = tuple(self.probes[task] for task in tasks if task in self.probes)
        finding = replace(finding, probes=probes)
        noted = reminders.prompts(source) if reminders else ()
        probed = ("probed",) if any(probe.conclusion for probe in probes) else ()
        question = PromptQuestion(
            stage="analyst",
            prompt=_PROMPTS[source] + form.suffix,
            sections=[
                form.show(self.skill),
                *memory_sections(self.memory),
                budget_section(self.budget),
                *_evidence(minibatch, self.probes, asker.digest),
            ],
            shape=form.analysis,
            max_tokens=form.max_tokens,
            also=(*noted, *probed),
        )
        answer = await asker.answer(question, self.progress)
        if isinstance(answer, Unusable):
            return replace(finding, problem=str(answer))
        return replace(
            finding,
            reasoning=answer.reasoning,
            patterns=tuple(
                Pattern(
                    pattern.name, pattern.count, pattern.description, _shown(pattern.tasks, tasks)
                )
                for pattern in answer.patterns
            ),
            proposals=tuple(
                Proposal(item.change(), source, _shown(item.tasks, tasks), item.why)
                for item in answer.items[: self.budget]
            ),
            notes=tuple(answer.appendix_notes[: self.budget]) if noted else (),
        )


def _evidence(
    rollouts: Sequence[Rollout], probes: Mapping[str, Probe], digest: Digest
) -> Iterator[str]:
    """The attempts, each with what was found out about it."""
    for rollout, shown in zip(rollouts, attempt_sections(rollouts, digest), strict=True):
        yield shown
        probe = probes.get(rollout.task)
        if probe and probe.conclusion:
            yield probe_section(probe)


def _shown(named: Sequence[str], tasks: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks that an answer names and that were really shown; all of them when it names none."""
    shown = sorted(set(named) & set(tasks))
    return tuple(shown or sorted(tasks))


def minibatches_of(size: StepSize, minibatch: int, *, both: bool) -> Range:
    """Questions about the attempts of a step, however many of them failed."""

    def questions(tasks: int) -> Range:
        most = max(
            ceil(failed / minibatch) + both * ceil((tasks - failed) / minibatch)
            for failed in range(tasks + 1)
        )
        # Attempts without a score are read by nobody.
        scored = tasks - int(size.unscored * tasks)
        return Range(ceil(scored / minibatch) if both else 0, most)

    return sum((questions(len(batch)) for batch in size.batches), NONE)


def proposer_cost(proposer: object, size: StepSize) -> Iterable[PartCost]:
    """What a proposer tells; one that tells nothing counts as an analyst, if it asks a model."""
    if isinstance(proposer, TellsCost):
        return proposer.cost(size)
    if not getattr(proposer, "asks_model", True):
        return ()
    minibatches = minibatches_of(size, MINIBATCH, both=True)
    return (PartCost("analysts", minibatches, "analyst_error", size.shown(MINIBATCH)),)


def proposer_size(proposer: object, size: StepSize) -> StepSize:
    """The size with what a proposer proposes at most; as an analyst, if it does not tell."""
    if isinstance(proposer, TellsProposals):
        return proposer.proposes(size)
    most = round(minibatches_of(size, MINIBATCH, both=True).high)
    return replace(size, findings=most, proposals=most * size.allowed)
