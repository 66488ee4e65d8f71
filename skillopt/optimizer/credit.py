"""Selector `credit`: proposals are tried together, then without each of them in turn.

Empty and harmful edits ride along in a bundle that is better on the whole, and rules that only work
together look useless alone. So what counts is what the bundle loses without an edit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from operator import attrgetter
from typing import ClassVar

from skillopt.aio import map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import apply_edits
from skillopt.core.memory import Memory, meaning, text_of
from skillopt.core.proposal import Dropped, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Rollout, Score
from skillopt.core.seeds import shuffled
from skillopt.core.sink import EventSink, Phase
from skillopt.core.skill import Skill
from skillopt.optimizer.likeness import Likeness, task_text
from skillopt.optimizer.locate import forgiving
from skillopt.optimizer.parts import Evidence, TriesSkills
from skillopt.optimizer.selection import ZERO
from skillopt.optimizer.update import edits_in

TOLERATED = 1
"""Solved tasks that may break without a search for the cause: noise breaks one now and then."""
NEEDED = 2
"""How many more tasks must speak for a proposal than against it."""
NAMED = 0.5
"""What it counts that a proposal names a task; that no task is more like it counts 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Keeps the proposals that the others cannot do without. Asks no optimizer.

    1. Credit: each proposal is left out of the bundle in turn, on failed tasks that the bundle
       repairs. It is kept if they fail again: one task may do so by chance, two hardly.
    2. What got no credit is tried once more where the rest does not repair what the bundle did:
       wordings of one rule hide each other as long as they stand side by side.
    3. Harm: what is kept is tried on tasks that the skill solves. If it breaks several, it is
       halved until the proposals that break them are found.
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
        halving = 2 * (self.trial_probes + tried) * (2 + 2 * ceil(log2(tried + 1)))
        most = halving + 8 * self.trial_tasks * tried
        yield PartCost("trial", Range(0, most, min(most, 1.5 * size.tasks)), edits=tried)

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
        with self.sink.phase("trial") as progress:
            trial = _Trial(
                self,
                progress,
                skill,
                proposals,
                evidence.findings,
                before=dict.fromkeys(sorted(memory.solved), 1.0) | self._scores(evidence.rollouts),
                texts={rollout.task: task_text(rollout) for rollout in evidence.rollouts},
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
    """Scores of tasks with the skill as it is."""
    texts: dict[str, str]
    """What these tasks ask, as far as it is known."""
    dropped: dict[int, str] = field(default_factory=dict[int, str])
    repaired: dict[int, int] = field(default_factory=dict[int, int])
    """By proposal: how many tasks failed again without it."""
    tasks: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """By proposal: failed tasks to try it on."""

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{number}: {count}" for number, count in sorted(self.repaired.items()))
        return f"tasks that fail again without a proposal: {counts or 'none'}"

    async def choose(self) -> list[int]:
        """The proposals to keep, those that repair most first."""
        tried = self._unlike(range(len(self.proposals)))
        likeness = Likeness.among(self.texts.values())
        self.tasks = {number: self._trial_tasks(number, likeness) for number in tried}
        found = await map_all(lambda number: self._credit(number, tried), tried)
        kept = [number for number, repaired in zip(tried, found, strict=True) if repaired]
        kept = sorted([*kept, *await self._second_chance(kept, tried)])
        kept = await self._harmless(kept, self._probes(kept, likeness))
        return sorted(kept, key=lambda number: (-self.repaired[number], number))

    async def _second_chance(self, kept: Sequence[int], tried: Sequence[int]) -> list[int]:
        """What is missed besides what is kept; of proposals that repair the same task the first."""

        async def credit(number: int) -> list[str]:
            """Whether it is missed shows on tasks that all proposals together repair."""
            repaired = list(await self._better(tried, self.tasks[number]))[:NEEDED]
            if len(await self._better(kept, repaired)) == len(repaired):
                return []
            return await self._credit(number, sorted([*kept, number]))

        others = [number for number in tried if number not in kept]
        added: dict[int, list[str]] = {}
        for number, repaired in zip(others, await map_all(credit, others), strict=True):
            if repaired and all(set(repaired).isdisjoint(tasks) for tasks in added.values()):
                added[number] = repaired
            elif repaired:
                self.dropped[number] = "another proposal repairs the same tasks"
        return list(added)

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

    def _trial_tasks(self, number: int, likeness: Likeness) -> list[str]:
        """Failed tasks of its minibatches, those first that a proposal is like and names."""
        named = set(self.proposals[number].tasks)
        text = text_of(self.proposals[number].edit)
        shown = named.union(
            *(finding.tasks for finding in self.findings if not named.isdisjoint(finding.tasks))
        )
        failed = sorted(task for task in shown if self.before.get(task, 0) < 1)
        alike = {task: likeness(text, self.texts.get(task, "")) for task in failed}
        top = max(alike.values(), default=0) or 1

        def fit(task: str) -> float:
            return alike[task] / top + NAMED * (task in named)

        return sorted(failed, key=fit, reverse=True)[: self.rule.trial_tasks]

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

    async def _better(
        self, numbers: Sequence[int], tasks: Sequence[str], variant: int = 0
    ) -> dict[str, float]:
        """The tasks that go better with these proposals, and how well."""
        values = await self._values(numbers, tasks, variant)
        return {task: value for task, value in values.items() if value > self.before.get(task, 0)}

    async def _credit(self, number: int, bundle: Sequence[int]) -> list[str]:
        """Tasks that the bundle repairs, if they fail again without the proposal; else none."""
        others = [member for member in bundle if member != number]
        repaired = await self._better(bundle, self.tasks[number])
        order = list(repaired)
        missed = spared = 0
        for variant, tasks in (0, order[:NEEDED]), (0, order[NEEDED:]), (1, order):
            having = await self._better(bundle, tasks, variant)
            lacking = await self._values(others, list(having), variant)
            fails = [value < having[task] for task, value in lacking.items()]
            missed += sum(fails)
            spared += len(fails) - sum(fails)
            if missed - spared >= NEEDED:
                self.repaired[number] = missed
                self.dropped.pop(number, None)
                return order
            if spared > missed or not missed:
                break
        self.dropped[number] = (
            f"{spared} of {missed + spared} repaired tasks are repaired without it as well"
            if missed + spared
            else f"with it none of {len(self.tasks[number])} tasks was repaired"
        )
        return []

    def _probes(self, numbers: Sequence[int], likeness: Likeness) -> list[str]:
        """Solved tasks: those that are most like a proposal, then any."""
        solved = shuffled(
            [task for task, value in self.before.items() if value >= 1], self.rule.seed
        )
        chosen: list[str] = []
        for number in numbers:
            text = text_of(self.proposals[number].edit)
            alike = [task for task in solved if likeness(text, self.texts.get(task, ""))]
            chosen += sorted(alike, key=lambda task: -likeness(text, self.texts[task]))[:1]
        return list(dict.fromkeys([*chosen, *solved[: self.rule.trial_probes]]))

    async def _broken(self, numbers: Sequence[int], tasks: Sequence[str]) -> list[str]:
        """Tasks that get worse with these proposals, twice in a row."""

        def worse(values: dict[str, float]) -> list[str]:
            return [task for task, value in values.items() if value < self.before[task]]

        once = worse(await self._values(numbers, tasks))
        return worse(await self._values(numbers, once, variant=1))

    async def _harmless(self, numbers: Sequence[int], probes: Sequence[str]) -> list[int]:
        """Without the proposals that break solved tasks.

        A task that most of the suspects break, each by itself, was solved by luck: it accuses none.
        """
        if not numbers:
            return []
        broken = await self._suspects(numbers, await self._broken(numbers, probes))
        counts = Counter(task for tasks in broken.values() for task in tasks)
        several = len(broken) > 2
        lucky = {task for task, count in counts.items() if several and 2 * count > len(broken)}
        harmless = list(numbers)
        for number, tasks in broken.items():
            harmed = sum(task not in lucky for task in tasks)
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
