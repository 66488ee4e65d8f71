"""Selector `credit`: proposals are tried together, then without each of them in turn.

Empty and harmful edits ride along in a bundle that is better on the whole, and rules that only work
together look useless alone. So what counts is what the bundle loses without an edit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil, log2
from operator import attrgetter
from typing import ClassVar

from skillopt.aio import map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import apply_edits
from skillopt.core.memory import Memory, meaning
from skillopt.core.proposal import Dropped, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Rollout, Score
from skillopt.core.seeds import blocks, shuffled
from skillopt.core.sink import EventSink, Phase
from skillopt.core.skill import Skill
from skillopt.optimizer.locate import forgiving
from skillopt.optimizer.parts import Evidence, TriesSkills
from skillopt.optimizer.selection import ZERO
from skillopt.optimizer.update import edits_in

TOLERATED = 1
"""Solved tasks that may break without a search for the cause: noise breaks one now and then."""
NOISY = 0.1
"""Share of broken tasks that pass when tried again, from which on one repair proves nothing."""
PAIRS = 5
"""Comparisons with and without a proposal, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Keeps the proposals that the others cannot do without. Asks no optimizer.

    1. Harm: the whole bundle is tried on tasks that the skill solves. If it breaks several, it is
       halved until the proposals that break them are found.
    2. Credit: what the rest repairs is tried without each proposal in turn. A proposal is kept if
       tasks that name it, or others of its minibatch, fail again.
    3. What got no credit is tried once more on top of what did: wordings of one rule hide each
       other as long as they stand side by side.
    """

    edits_only: ClassVar[bool] = True

    attempt: TriesSkills
    sink: EventSink
    mark: Callable[[Score], float] = attrgetter("hard")
    seed: int = 42
    trial_tasks: int = 4
    trial_probes: int = 8

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        tried = size.proposals
        halving = 2 * self.trial_probes * (2 + 2 * ceil(log2(tried + 1)))
        most = halving + 2 * 2 * PAIRS * tried
        yield PartCost("trial", Range(0, most, 0.3 * most), edits=tried)

    async def __call__(
        self,
        skill: Skill,
        merged: ProposalSet,
        memory: Memory,
        *,
        budget: int | None,
        evidence: Evidence,
    ) -> Selection:
        """At most `budget` proposals, those that repaired most first."""
        proposals = merged.proposals
        if budget == 0 or not proposals:
            return Selection(dropped=tuple(Dropped(proposal, ZERO) for proposal in proposals))
        before = dict.fromkeys(sorted(memory.solved), 1.0) | self._scores(evidence.rollouts)
        with self.sink.phase("trial") as progress:
            solved = [task for task, value in before.items() if value > 0]
            probes = shuffled(solved, self.seed)[: self.trial_probes]
            trial = _Trial(
                self, progress, skill, proposals, evidence.findings, before, probes=probes
            )
            kept = await trial.choose()
        for number in kept[budget:] if budget is not None else ():
            trial.dropped[number] = f"the learning rate allows {budget} edits in this step"
        kept = sorted(kept[:budget])
        return Selection(
            tuple(proposals[number] for number in kept),
            trial.summary,
            tuple(kept),
            dropped=tuple(
                Dropped(proposal, trial.dropped[number])
                for number, proposal in enumerate(proposals)
                if number not in kept
            ),
        )

    async def values(
        self, skill: Skill, tasks: Sequence[str], replicate: int = 0
    ) -> dict[str, float]:
        """Scores by task; attempts without a score are left out."""
        return self._scores(await self.attempt(skill, tasks, replicate))

    def _scores(self, rollouts: Iterable[Rollout]) -> dict[str, float]:
        return {
            rollout.task: self.mark(rollout.outcome)
            for rollout in rollouts
            if isinstance(rollout.outcome, Score)
        }


@dataclass(slots=True)
class _Trial:
    """One selection under way; proposals go by their number."""

    rule: Credit
    progress: Phase
    skill: Skill
    proposals: Sequence[Proposal]
    findings: Sequence[Finding]
    before: dict[str, float]
    """Scores of the step's tasks with the skill as it is."""
    dropped: dict[int, str] = field(default_factory=dict[int, str])
    repaired: dict[int, int] = field(default_factory=dict[int, int])
    """By proposal: how many tasks failed again without it."""
    probes: Sequence[str] = ()
    """Tasks that the skill solves."""
    retried: int = 0
    recovered: int = 0

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{number}: {count}" for number, count in sorted(self.repaired.items()))
        return f"tasks that fail again without a proposal: {counts or 'none'}"

    @property
    def noisy(self) -> bool:
        """Whether broken tasks often pass when they are tried again."""
        return self.recovered > NOISY * self.retried

    async def choose(self) -> list[int]:
        """The proposals to keep, those that repair most first."""
        unlike = self._unlike(range(len(self.proposals)))
        tried = await self._harmless(unlike)
        kept = await self._credited(tried)
        for number in tried:
            if number not in kept and await self._credit(number, [*kept, number]):
                kept.append(number)
        kept.sort()
        if kept != tried:
            kept = await self._harmless(kept)
        return sorted(kept, key=lambda number: (-self.repaired[number], number))

    async def _credited(self, numbers: Sequence[int]) -> list[int]:
        found = await map_all(lambda number: self._credit(number, numbers), numbers)
        return [number for number, credit in zip(numbers, found, strict=True) if credit]

    def _unlike(self, numbers: Sequence[int]) -> list[int]:
        """Without repetitions and what changes nothing."""
        seen: dict[object, int] = {}
        for number in numbers:
            edit = self.proposals[number].edit
            if meaning(edit) in seen:
                self.dropped[number] = f"proposal {seen[meaning(edit)]} says the same"
            elif self._bundle([number]) == self.skill:
                self.dropped[number] = "it changes nothing in the skill"
            else:
                seen[meaning(edit)] = number
        return list(seen.values())

    def _bundle(self, numbers: Sequence[int], variant: int = 0) -> Skill:
        """The skill with these proposals; a variant has them in another order."""
        order = shuffled(numbers, variant) if variant else numbers
        edits = edits_in(self.proposals[number] for number in order)
        return apply_edits(self.skill, edits, forgiving).skill

    async def _values(
        self, numbers: Sequence[int], tasks: Sequence[str], variant: int = 0
    ) -> dict[str, float]:
        """Scores with these proposals.

        A variant asks again: with the proposals in another order, or, where that gives the same
        text, for another replicate. So it is a fresh answer of noisy and of steady targets.
        """
        if not tasks:
            return {}
        skill = self._bundle(numbers, variant)
        same = variant and skill == self._bundle(numbers)
        found = await self.rule.values(skill, tasks, variant if same else 0)
        self.progress.tick()
        return found

    async def _broken(self, numbers: Sequence[int], tasks: Sequence[str]) -> list[str]:
        """Tasks that get worse with these proposals, twice in a row."""

        def worse(values: dict[str, float]) -> list[str]:
            return [task for task, value in values.items() if value < self.before[task]]

        once = worse(await self._values(numbers, tasks))
        twice = worse(await self._values(numbers, once, variant=1))
        self.retried += len(once)
        self.recovered += len(once) - len(twice)
        return twice

    async def _harmless(self, numbers: Sequence[int]) -> list[int]:
        """Without the proposals that break solved tasks.

        A task that most of the suspects break, each by itself, was solved by luck: it accuses none.
        """
        broken = await self._suspects(numbers, await self._broken(numbers, self.probes))
        counts = Counter(task for tasks in broken.values() for task in tasks)
        if len(broken) > 2:
            lucky = {task for task, count in counts.items() if 2 * count > len(broken)}
            self.probes = [task for task in self.probes if task not in lucky]
        harmless = list(numbers)
        for number, tasks in broken.items():
            harmed = sum(task in self.probes for task in tasks)
            if harmed > TOLERATED:
                harmless.remove(number)
                self.dropped[number] = f"it breaks {harmed} tasks that the skill solves"
        return harmless

    async def _suspects(
        self, numbers: Sequence[int], broken: Sequence[str]
    ) -> dict[int, Sequence[str]]:
        """Which proposals break tasks that these proposals break, found by halving."""
        if not numbers or len(broken) <= TOLERATED:
            return {}
        if len(numbers) == 1:
            return {numbers[0]: broken}
        middle = (len(numbers) + 1) // 2

        async def half(part: Sequence[int]) -> dict[int, Sequence[str]]:
            return await self._suspects(part, await self._broken(part, broken))

        left, right = await map_all(half, (numbers[:middle], numbers[middle:]))
        return {**left, **right}

    async def _credit(self, number: int, bundle: Sequence[int]) -> bool:
        """Whether tasks that the bundle repairs fail again without the proposal.

        Steady targets need one such task, noisy ones two more than there are against it.
        """
        others = [member for member in bundle if member != number]
        needed = 2 if self.noisy else 1
        missed = spared = tried = 0
        for variant, tasks in product(range(needed), blocks(self._tasks(number), needed)):
            having = await self._values(bundle, tasks, variant)
            better = [task for task in tasks if having.get(task, 0) > self.before.get(task, 0)]
            lacking = await self._values(others, better, variant) if others else self.before
            losses = [lacking.get(task, 0) < having[task] for task in better]
            tried += len(tasks)
            missed += sum(losses)
            spared += len(losses) - sum(losses)
            if missed - spared >= needed:
                self.repaired[number] = missed
                self.dropped.pop(number, None)
                return True
            if spared - missed >= needed or missed + spared >= PAIRS:
                break
        self.dropped[number] = (
            f"{spared} of {missed + spared} repaired tasks are repaired without it as well"
            if missed + spared
            else f"with it none of {tried} tasks was repaired"
        )
        return False

    def _tasks(self, number: int) -> list[str]:
        """Failed tasks that a proposal names, then others of its minibatches."""
        most, named = self.rule.trial_tasks, self.proposals[number].tasks
        beside = dict.fromkeys(
            task
            for finding in self.findings
            if not set(named).isdisjoint(finding.tasks)
            for task in finding.tasks
            if task not in named
        )

        def failed(tasks: Iterable[str]) -> list[str]:
            return [task for task in tasks if self.before.get(task, 0) < 1][:most]

        return failed(named) + failed(beside)
