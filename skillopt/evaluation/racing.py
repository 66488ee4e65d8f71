"""Races among candidates, and the skills that steps set out from."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation
from skillopt.core.seeds import shuffled
from skillopt.core.task import Split
from skillopt.evaluation.gates import EQUAL, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving:
    """Whoever gains on the step's own tasks is screened in; each heat then halves the field."""

    metric: Metric
    screen: int
    """Tasks of the step that candidates are screened on; 0: all of them."""
    block: int
    """Validation tasks of a heat."""
    seed: int = 42

    def screening(self, known: Evaluation) -> list[list[str]]:
        """First tasks that can be repaired, then as many that can be broken."""
        marks = {
            task: self.metric.mark(each.hard, each.soft) for task, each in known.scores.items()
        }
        faulty = [task for task, mark in marks.items() if mark < 1 - EQUAL]
        sound = [task for task in marks if task not in faulty]
        if not faulty:
            return []
        if self.screen:
            faulty = faulty[: max(1, self.screen // 2)]
            sound = sound[: self.screen - len(faulty)]
        return [some for some in (faulty, sound) if some]

    def blocks(self, tasks: Sequence[str], step: int) -> list[list[str]]:
        """In an order that no outcome can influence, another one in every step."""
        order = shuffled(tasks, self.seed + 3000 * step)
        return [order[at : at + self.block] for at in range(0, len(order), self.block)]

    def kept(self, gains: Mapping[str, float], split: Split) -> list[str]:
        """The better half; of equals, whoever was named first.

        On the step's own tasks only who gains, and not less than two where so many do: the rest is
        for validation tasks to tell.
        """
        half = (len(gains) + 1) // 2
        names = sorted(gains, key=lambda name: -gains[name])
        if split == "val":
            return names[:half]
        return [name for name in names if gains[name] > EQUAL][: max(2, half)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pareto:
    """Draws a parent among skills that are the best on some task, by how many tasks that are."""

    metric: Metric
    seed: int = 42

    def __call__(self, pool: Sequence[Measured], step: int) -> Measured:
        """Depends on the pool and the step alone."""
        wins = self._wins(pool)
        drawn = random.Random(f"{self.seed} {step}")  # noqa: S311
        at = drawn.choices(range(len(pool)), [len(each) for each in wins])[0]
        return pool[at]

    def _wins(self, pool: Sequence[Measured]) -> list[set[str]]:
        """By skill, the tasks on which nobody is better; none for a skill that others cover."""
        marks = [
            {task: self.metric.mark(each.hard, each.soft) for task, each in scores.items()}
            for scores in (skill.evaluation.scores for skill in pool)
        ]
        best: dict[str, float] = {}
        for some in marks:
            for task, mark in some.items():
                best[task] = max(mark, best.get(task, mark))
        wins = [
            {task for task, mark in some.items() if mark >= best[task] - EQUAL} for some in marks
        ]
        for at in sorted(range(len(pool)), key=lambda at: (pool[at].value, at)):
            others = set[str]().union(*(each for n, each in enumerate(wins) if n != at))
            if wins[at] <= others and any(wins[n] for n in range(len(pool)) if n != at):
                wins[at] = set()
        if not any(wins):
            wins[-1] = {""}
        return wins
