"""What a rule is worth, and rules that nothing misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt.analysis.lineage import Origins, lineage, origins_of
from skillopt.core.events import Event
from skillopt.core.ports import CompleteGate
from skillopt.core.rollout import EQUAL, Evaluation
from skillopt.core.rules import Cut, Rule, Worth, rules_in, without
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.gates.compared import Metric
from skillopt.gates.statistics import matched


def worth(rule: Rule, whole: Evaluation, less: Evaluation, metric: Metric) -> Worth:
    """Compare, task by task, the skill as it is with the skill without a rule."""
    new, old = whole.beside(less)
    gains = [metric.difference(new.scores[task], old.scores[task]) for task in new.scores]
    found = matched(gains)
    changed = sum(abs(gain) > EQUAL for gain in gains)
    return Worth(rule, found.mean, found.low, found.high, len(gains), changed)


class Measure(Protocol):
    """Evaluates skills on training tasks, from finished work where possible."""

    async def __call__(self, trials: Sequence[tuple[Skill, Sequence[Task]]]) -> list[Evaluation]:
        """One evaluation per trial, in order; the others are compared with the first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Leaves each rule out alone, then, one after the other, all that are worth nothing.

    A rule is tried on tasks that it was written for before others, because a rule for a rare case
    would look useless on any other task. Where the skill earns nothing with a rule, nothing can be
    missed without it: that says nothing about the rule, so it stays. Rules that stand in for each
    other are worth nothing each: so a rule stays if it is missed once those before it are gone.
    """

    measure: Measure
    metric: Metric
    gate: CompleteGate
    tasks: Mapping[str, Task]
    """The training tasks, by id."""

    async def cut(self, skill: Skill, sample: Sequence[Task], events: Iterable[Event]) -> Cut:
        """The value of each rule on as many tasks as the sample has, and what can go."""
        origins = lineage(events).get(skill.digest, {})
        trials = {rule: self._tasks(rule, origins, sample) for rule in rules_in(skill)}
        if not trials:
            return Cut()
        every = {task.id: task for tasks in trials.values() for task in tasks}
        whole, *found = await self.measure(
            [
                (skill, list(every.values())),
                *((without(skill, [rule]), tasks) for rule, tasks in trials.items()),
            ]
        )
        worths = [
            worth(rule, whole, less, self.metric) for rule, less in zip(trials, found, strict=True)
        ]
        gone = await self._spare(skill, whole, worths, trials)
        return Cut(tuple(worths), tuple(rule for rule in trials if rule in gone))

    def _tasks(self, rule: Rule, origins: Origins, sample: Sequence[Task]) -> list[Task]:
        """Up to half of them are tasks that speak for the rule."""
        spoke = [task for origin in origins_of(rule, origins) for task in origin.tasks]
        own = [self.tasks[task] for task in dict.fromkeys(spoke) if task in self.tasks]
        chosen = [*own[: len(sample) // 2], *sample]
        return list({task.id: task for task in chosen}.values())[: len(sample)]

    async def _spare(
        self,
        skill: Skill,
        whole: Evaluation,
        worths: Sequence[Worth],
        trials: Mapping[Rule, Sequence[Task]],
    ) -> list[Rule]:
        gone: list[Rule] = []
        # The most harmful first; of equals the last one, for it may repeat an earlier one.
        able = {task for task, mark in self.metric.marks(whole).items() if mark > EQUAL}
        tested = [worth for worth in worths if able.intersection(t.id for t in trials[worth.rule])]
        useless = [rule_worth for rule_worth in reversed(tested) if _useless(rule_worth)]
        for rule_worth in sorted(useless, key=lambda rule_worth: rule_worth.gain):
            shorter = without(skill, [*gone, rule_worth.rule])
            if shorter == skill:
                continue  # it cannot go without changing how the rest is read
            tasks = trials[rule_worth.rule]
            _, less = await self.measure([(skill, tasks), (shorter, tasks)])
            if _useless(worth(rule_worth.rule, whole, less, self.metric)):
                gone.append(rule_worth.rule)
        return gone


def _useless(found: Worth) -> bool:
    return found.n > 0 and found.gain <= EQUAL
