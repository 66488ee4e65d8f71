"""Selector `credit`: proposals are tried together, then without each of them in turn.

Empty and harmful edits ride along in a bundle that is better on the whole, and rules that only work
together look useless alone. So what counts is what the bundle loses without an edit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil, log2
from operator import attrgetter
from typing import ClassVar

from skillopt.aio import TaskGroup, map_all
from skillopt.core.costs import PartCost, Range, StepSize
from skillopt.core.edits import apply_edits
from skillopt.core.memory import Memory, meaning, text_of
from skillopt.core.proposal import Dropped, Finding, Proposal, ProposalSet, Selection
from skillopt.core.rollout import Rollout, Score
from skillopt.core.seeds import shuffled
from skillopt.core.sink import EventSink, Phase
from skillopt.core.skill import Skill
from skillopt.core.wording import counted
from skillopt.errors import BudgetSpent
from skillopt.optimizer.likeness import Likeness, task_text
from skillopt.optimizer.locate import forgiving
from skillopt.optimizer.parts import Evidence, TriesAhead, TriesSkills
from skillopt.optimizer.selection import ZERO
from skillopt.optimizer.update import control, edits_in

TOLERATED = 1
"""Solved tasks that may break without a search for the cause: noise breaks one now and then."""
NEEDED = 2
"""How many more tasks must speak for a proposal than against it."""
ALIKE = 2
"""Solved tasks like a proposal that it is tried on: its condition may be missing."""
NAMED = 0.5
"""What it counts that a proposal names a task; that no task is more like it counts 1."""
_IN_VAIN = 0.25
"""Share of the tasks of a step that are attempted by speculation in vain, as a rule."""
_FEW_PROBES = 2
"""Solved tasks that proposals must not break, where little may be spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Keeps the proposals that the others cannot do without. Asks no optimizer.

    1. Credit: each proposal is left out of the bundle in turn, on failed tasks that the bundle
       repairs. It is kept if they fail again: one task may do so by chance, two hardly. Where the
       bundle holds nothing else, the skill without it is another text that says the same
       (`control`), for the tasks are known to fail with this one.
    2. What got no credit is tried once more where the rest does not repair what the bundle did:
       wordings of one rule hide each other as long as they stand side by side.
    3. Harm: what is kept is tried on tasks that the skill solves. If it breaks several, it is
       halved until the proposals that break them are found. A proposal goes if it breaks tasks
       that are not like it. If it breaks only such as are, it is right but too general: it stays,
       and the next round sees what it breaks.
    """

    edits_only: ClassVar[bool] = True

    attempt: TriesSkills
    ahead: TriesAhead | None = None
    sink: EventSink
    mark: Callable[[Score], float] = attrgetter("hard")
    seed: int = 42
    trial_tasks: int = 4
    trial_probes: int = 8

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        tried = size.proposals
        halving = 2 * (self.trial_probes + ALIKE * tried) * (2 + 2 * ceil(log2(tried + 1)))
        most = halving + 8 * self.trial_tasks * tried
        # Most of what is proposed is a wording of the same few rules, or goes at once.
        edits = Range(0, tried, min(tried, size.used))
        yield PartCost("trial", Range(0, most, min(most, size.tasks)), edits=edits)
        if self.ahead is not None:
            # Of the whole and of the kept proposals, what they turn out not to repair.
            wasted = 2 * NEEDED * tried
            expected = _IN_VAIN * min(wasted, size.tasks)
            yield PartCost("speculative trial", Range(0, wasted, expected), edits=edits, idle=True)

    def _sparing(self) -> Credit:
        """The same with few attempts for each proposal: more of them are then tried at all."""
        return replace(self, trial_tasks=1, trial_probes=min(self.trial_probes, _FEW_PROBES))

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
                self._sparing() if memory.sparing else self,
                progress,
                skill,
                proposals,
                evidence.findings,
                before=dict.fromkeys(sorted(memory.solved), 1.0) | self.scores(evidence.rollouts),
                texts={rollout.task: task_text(rollout) for rollout in evidence.rollouts},
                goes_on=evidence.goes_on,
            )
            kept = await trial.choose()
        for number in kept[budget:] if budget is not None else ():
            trial.dropped[number] = (
                f"the learning rate allows {counted(budget or 0, 'edit')} in this step"
            )
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
            tried=trial.tried(kept),
        )

    def scores(self, rollouts: Iterable[Rollout]) -> dict[str, float]:
        """By task; attempts without a score are left out."""
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
    """Scores of tasks with the skill as it is, or with the last one that attempted them."""
    texts: dict[str, str]
    """What these tasks ask, as far as it is known."""
    goes_on: bool
    """Whether failed tasks will be attempted with what is kept."""
    dropped: dict[int, str] = field(default_factory=dict[int, str])
    repaired: dict[int, int] = field(default_factory=dict[int, int])
    """By proposal: how many tasks failed again without it."""
    tasks: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """By proposal: failed tasks to try it on."""
    fit: dict[int, float] = field(default_factory=dict[int, float])
    """By proposal: how much it is like the most similar of these."""
    alike: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """By proposal: solved tasks that are most like it."""
    passing: dict[int, list[Rollout]] = field(default_factory=dict[int, list[Rollout]])
    """By proposal that got credit: attempts with it that passed."""
    failing: dict[str, Rollout] = field(default_factory=dict[str, Rollout])
    """Solved tasks that fail with what is kept."""

    ahead: dict[tuple[int, ...], list[Rollout]] = field(
        default_factory=dict[tuple[int, ...], list[Rollout]]
    )
    """By what was to be kept: attempts at the other failed tasks with it."""
    bundles: dict[tuple[int, ...], Skill] = field(default_factory=dict[tuple[int, ...], Skill])
    """By proposals in order: the skill with them."""

    def tried(self, kept: Sequence[int]) -> tuple[Rollout, ...]:
        """How tasks go with the proposals that are kept, as far as it was tried."""
        passing = {rollout.task: rollout for number in kept for rollout in self.passing[number]}
        ahead = {rollout.task: rollout for rollout in self.ahead.get(tuple(kept), ())}
        return tuple({**ahead, **passing, **self.failing}.values()) if kept else ()

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
        try:
            more = sorted([*kept, *await self._second_chance(kept, tried)])
            async with TaskGroup() as group:
                if self.goes_on and more:
                    group.start(self._look_ahead(more))
                kept = await self._harmless(more, self._probes(more, likeness))
        except BudgetSpent:
            if not kept:
                raise
            # What has credit is worth more than nothing.
            self.failing = {}
            self.dropped = dict.fromkeys(tried, "a limit ended the trial") | self.dropped
        return sorted(kept, key=lambda number: (-self.repaired[number], number))

    async def _second_chance(self, kept: Sequence[int], tried: Sequence[int]) -> list[int]:
        """What is missed besides what is kept; of proposals that repair the same task one.

        The first look is at one proposal for each task that is not repaired without them: the one
        that is most like a task. The rest is tried only where that was of no use.
        """

        async def unrepaired(number: int) -> list[str]:
            """Whether it is missed shows on tasks that all proposals together repair."""
            repaired = list(await self._better(tried, self.tasks[number]))[:NEEDED]
            spared = await self._better(kept, repaired)
            return [task for task in repaired if task not in spared]

        others = [number for number in tried if number not in kept]
        others.sort(key=lambda number: -self.fit[number])
        missing = dict(zip(others, await map_all(unrepaired, others), strict=True))
        waiting = [number for number in others if missing[number]]
        added: dict[int, list[str]] = {}
        for first in True, False:
            taken: set[str] = set()
            look: list[int] = []
            for number in waiting:
                if not first or taken.isdisjoint(missing[number]):
                    look.append(number)
                    taken.update(missing[number])
            found = await map_all(
                lambda number: self._credit(number, sorted([*kept, number])), look
            )
            for number, repaired in zip(look, found, strict=True):
                if repaired and all(set(repaired).isdisjoint(tasks) for tasks in added.values()):
                    added[number] = repaired
                elif repaired:
                    self.dropped[number] = "another proposal repairs the same tasks"
            done = set(chain(*added.values()))
            waiting = [n for n in waiting if n not in look and done.isdisjoint(missing[n])]
        return list(added)

    async def _look_ahead(self, numbers: Sequence[int]) -> None:
        """Attempts at failed tasks that nobody has seen repaired; as a rule all are kept."""
        seen = {rollout.task for number in numbers for rollout in self.passing[number]}
        left = [task for task in self.texts if self.before.get(task, 0) < 1 and task not in seen]
        self.ahead[tuple(numbers)] = await self._attempts(numbers, left)

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
        self.fit[number] = max(alike.values(), default=0)
        top = self.fit[number] or 1

        def fit(task: str) -> float:
            return alike[task] / top + NAMED * (task in named)

        return sorted(failed, key=fit, reverse=True)[: self.rule.trial_tasks]

    def _bundle(self, numbers: Sequence[int], variant: int = 0) -> Skill:
        """The skill with these proposals; a variant has them in another order."""
        order = tuple(shuffled(numbers, variant) if variant else numbers)
        if order not in self.bundles:
            edits = edits_in(self.proposals[number] for number in order)
            self.bundles[order] = apply_edits(self.skill, edits, forgiving).skill
        return self.bundles[order]

    async def _attempts(
        self, numbers: Sequence[int], tasks: Sequence[str], variant: int = 0
    ) -> list[Rollout]:
        """Attempts with these proposals.

        A variant asks again: with the proposals in another order, or, where that gives the same
        text, for another replicate. So it is a fresh answer of noisy and of steady targets.
        """
        if not tasks:
            return []
        skill = self._bundle(numbers, variant)
        same = variant and skill == self._bundle(numbers)
        found = await self.rule.attempt(skill, tasks, variant if same else 0)
        self.progress.tick()
        return found

    async def _values(
        self, numbers: Sequence[int], tasks: Sequence[str], variant: int = 0
    ) -> dict[str, float]:
        """Scores with these proposals."""
        return self.rule.scores(await self._attempts(numbers, tasks, variant))

    async def _control(self, tasks: Sequence[str], variant: int = 0) -> dict[str, float]:
        """Scores with the skill as it is, in another text."""
        return self.rule.scores(await self.rule.attempt(control(self.skill), tasks, variant))

    def _ahead(
        self, numbers: Sequence[int], tasks: Sequence[str]
    ) -> AbstractAsyncContextManager[None]:
        """Meanwhile, attempts with these proposals, or with none of them, by speculation."""
        if self.rule.ahead is None:
            return nullcontext()
        return self.rule.ahead(self._bundle(numbers) if numbers else control(self.skill), tasks)

    async def _better(self, numbers: Sequence[int], tasks: Sequence[str]) -> dict[str, float]:
        """The tasks that go better with these proposals, and how well."""
        return self._improved(await self._values(numbers, tasks))

    def _improved(self, values: Mapping[str, float]) -> dict[str, float]:
        return {task: value for task, value in values.items() if value > self.before.get(task, 0)}

    async def _credit(self, number: int, bundle: Sequence[int]) -> list[str]:
        """Tasks that the bundle repairs, if they fail again without the proposal; else none."""
        others = [member for member in bundle if member != number]
        without = partial(self._values, others) if others else self._control
        async with self._ahead(others, self.tasks[number][:NEEDED]):
            repaired = await self._better(bundle, self.tasks[number])
        order = list(repaired)
        missed = spared = 0
        for variant, tasks in (0, order[:NEEDED]), (0, order[NEEDED:]), (1, order):
            # Most of them pass again, so nothing is won by waiting to see which.
            with_it, lacking = await map_all(
                lambda look: look(tasks, variant),  # noqa: B023 - awaited here
                (partial(self._values, bundle), without),
            )
            having = self._improved(with_it)
            fails = [value < having[task] for task, value in lacking.items() if task in having]
            missed += sum(fails)
            spared += len(fails) - sum(fails)
            if missed - spared >= NEEDED:
                self.repaired[number] = missed
                self.passing[number] = await self._attempts(bundle, _full(repaired))
                self.dropped.pop(number, None)
                return order
            if spared > missed or not missed:
                break
        self.dropped[number] = (
            f"{spared} of {missed + spared} repaired tasks are repaired without it as well"
            if missed + spared
            else f"with it none of {counted(len(self.tasks[number]), 'task')} was repaired"
        )
        return []

    def _probes(self, numbers: Sequence[int], likeness: Likeness) -> list[str]:
        """Solved tasks: those that are most like a proposal, then any."""
        solved = shuffled(
            [task for task, value in self.before.items() if value >= 1], self.rule.seed
        )
        for number in numbers:
            text = text_of(self.proposals[number].edit)
            shared = {task: likeness(text, self.texts.get(task, "")) for task in solved}
            alike = sorted(filter(shared.get, solved), key=lambda task: -shared[task])
            self.alike[number] = alike[:ALIKE]
        chosen = chain(*(self.alike[number] for number in numbers))
        return list(dict.fromkeys([*chosen, *solved[: self.rule.trial_probes]]))

    def _worsened(self, values: Mapping[str, float]) -> list[str]:
        return [task for task, value in values.items() if value < self.before[task]]

    async def _worse(self, numbers: Sequence[int], tasks: Sequence[str]) -> list[str]:
        """Tasks that go worse with these proposals, twice in a row."""
        once = self._worsened(await self._values(numbers, tasks))
        return self._worsened(await self._values(numbers, once, variant=1))

    async def _harmless(self, numbers: Sequence[int], probes: Sequence[str]) -> list[int]:
        """Without the proposals that break solved tasks.

        A task that fails with the skill as it is was solved by an earlier one. A task that passes
        without the proposals that it is like shows that these are too general. A task that most of
        the suspects break, each by itself, was solved by luck. All of them accuse none, and
        neither does a task that had no score in one of these looks.
        """
        if not numbers:
            return []
        first = {rollout.task: rollout for rollout in await self._attempts(numbers, probes)}
        once = self._worsened(self.rule.scores(first.values()))

        async def again() -> dict[str, float]:
            return await self._values(numbers, once, variant=1)

        async def as_it_is() -> dict[str, float]:
            return await self._values((), once)

        async def without_alike() -> dict[str, float]:
            return dict(chain(*await map_all(spared_by, once)))

        async def spared_by(task: str) -> Iterable[tuple[str, float]]:
            others = [number for number in numbers if task not in self.alike[number]]
            return (await self._values(others, [task])).items()

        twice, now, spared = await map_all(lambda look: look(), (again, as_it_is, without_alike))
        self.failing = {task: first[task] for task in self._worsened(twice)}
        lost = [
            task
            for task in self.failing
            if task in now and task in spared and now[task] >= self.before[task] > spared[task]
        ]
        broken = await self._suspects(numbers, lost)
        counts = Counter(task for tasks in broken.values() for task in tasks)
        several = len(broken) > 2
        lucky = {task for task, count in counts.items() if several and 2 * count > len(broken)}
        harmless = list(numbers)
        for number, tasks in broken.items():
            harmed = len(set(tasks) - lucky - set(self.alike[number]))
            if harmed > TOLERATED:
                harmless.remove(number)
                self.dropped[number] = f"it breaks {counted(harmed, 'task')} that the skill solves"
                self.failing = {
                    task: rollout for task, rollout in self.failing.items() if task not in tasks
                }
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
            return await self._suspects(part, await self._worse(part, broken))

        left, right = await map_all(half, (numbers[:middle], numbers[middle:]))
        return {**left, **right}


def _full(values: Mapping[str, float]) -> list[str]:
    """The tasks with full marks."""
    return [task for task, value in values.items() if value >= 1]
