"""Several rounds of proposing before the gate: each looks at what the last one left unsolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace

from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.memory import Memory
from skillopt.core.proposal import Candidate, Draft, Finding, ProposalSet, Selection
from skillopt.core.rollout import Batches, Rollout, Score
from skillopt.core.skill import Skill
from skillopt.optimizer.parts import TriesSkills
from skillopt.optimizer.pipeline import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Lets a pipeline propose again for the tasks that its own candidate does not solve.

    Only training tasks are attempted meanwhile, and the gate sees the sum of all rounds.
    """

    pipeline: Pipeline
    attempt: TriesSkills
    most: int

    async def propose(
        self, skill: Skill, batches: Batches, memory: Memory, *, budget: int | None
    ) -> Draft:
        """Go on as long as a round changes something and a task is left to repair."""
        draft = await self.pipeline.propose(skill, batches, memory, budget=budget)
        rollouts = [rollout for batch in batches async for rollout in batch]
        for _ in range(self.most - 1):
            candidate = draft.leading
            left = None if budget is None else budget - len(candidate.chosen.proposals)
            failed = [rollout.task for rollout in rollouts if not _passed(rollout)]
            if candidate.skill is None or left == 0:
                break
            tried = {each.task: each for each in await self.attempt(candidate.skill, failed)}
            rollouts = [tried.get(rollout.task, rollout) for rollout in rollouts]
            repaired = [task for task, rollout in tried.items() if _passed(rollout)]
            draft = replace(draft, repaired=(*draft.repaired, *repaired))
            if len(repaired) == len(failed):
                break
            more = await self.pipeline.propose(
                candidate.skill, [_Attempted(rollouts)], memory, budget=left
            )
            draft = _joined(draft, more)
            if more.leading.skill in (None, candidate.skill):
                break
        return draft

    def used(self, size: StepSize) -> int:
        """Proposals that become part of a candidate, at most."""
        return self.pipeline.used(size)

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        """Later rounds look only at what is left."""
        yield from self.pipeline.cost(size)
        for _ in range(self.most - 1):
            yield PartCost("next round", Range(0, size.tasks, 0.2 * size.tasks), edits=size.allowed)
            yield from (cost.perhaps().perhaps() for cost in self.pipeline.cost(size))


@dataclass(frozen=True, slots=True)
class _Attempted:
    """Attempts that are there already, as a batch."""

    rollouts: Sequence[Rollout]

    async def __aiter__(self) -> AsyncIterator[Rollout]:
        for rollout in self.rollouts:
            yield rollout


def _passed(rollout: Rollout) -> bool:
    return isinstance(rollout.outcome, Score) and rollout.outcome.passed


def _joined(first: Draft, then: Draft) -> Draft:
    """Two rounds as one draft: the second one's edits follow those of the first."""
    counts = Counter(finding.source for finding in first.findings)
    findings: list[Finding] = [*first.findings]
    for finding in then.findings:
        findings.append(replace(finding, number=counts[finding.source]))
        counts[finding.source] += 1
    one, other = first.leading, then.leading
    candidate = Candidate(
        name=one.name,
        chosen=_selected(one.chosen, other.chosen, len(first.merged.proposals)),
        report=(*one.report, *other.report),
        skill=one.skill if other.skill is None else other.skill,
    )
    return replace(
        first,
        findings=tuple(findings),
        merged=ProposalSet(
            (*first.merged.proposals, *then.merged.proposals),
            _told(first.merged.reasoning, then.merged.reasoning),
            (*first.merged.problems, *then.merged.problems),
        ),
        candidates=(candidate,),
        repeats=(*first.repeats, *then.repeats),
    )


def _selected(one: Selection, other: Selection, before: int) -> Selection:
    """Both selections; places of the second one come after all proposals of the first."""
    indices = None
    if one.indices is not None and other.indices is not None:
        indices = (*one.indices, *(before + place for place in other.indices))
    return Selection(
        (*one.proposals, *other.proposals),
        _told(one.reasoning, other.reasoning),
        indices,
        _told(one.problem, other.problem),
        (*one.dropped, *other.dropped),
    )


def _told(one: str, other: str) -> str:
    return "\n\n".join(filter(None, (one, other)))
