"""Rules for races among candidates and for the parents of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt.core.events import Measured
from skillopt.core.rollout import Evaluation
from skillopt.core.seeds import blocks, drawn, shuffled
from skillopt.gates.compared import EQUAL, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class HalveByGain:
    """Whoever gains on the step's own tasks is screened in; each round then halves the field."""

    metric: Metric
    screen: int
    """Tasks of the step that candidates are screened on; 0: all of them."""
    block: int
    """Validation tasks of a round."""
    seed: int = 42

    def screening(self, known: Evaluation) -> list[list[str]]:
        """First tasks that can be repaired, then as many that can be broken."""
        marks = self.metric.marks(known)
        faulty = [task for task, mark in marks.items() if mark < 1 - EQUAL]
        sound = [task for task in marks if task not in faulty]
        if not faulty:
            return []
        if self.screen:
            faulty = faulty[: max(1, self.screen // 2)]
            sound = sound[: self.screen - len(faulty)]
        return [some for some in (faulty, sound) if some]

    def blocks(self, tasks: Sequence[str], step: int) -> list[Sequence[str]]:
        """In an order that no outcome can influence, another one in every step."""
        return blocks(shuffled(tasks, f"{self.seed} race {step}"), self.block)

    def screened(self, gains: Mapping[str, float]) -> list[str]:
        """Who gains, and of these the better half, but two if so many gain.

        The choice between the last two is for validation tasks.
        """
        gainers = [name for name in _ranked(gains) if gains[name] > EQUAL]
        return gainers[: max(2, _half(gains))]

    def halved(self, gains: Mapping[str, float]) -> list[str]:
        """The better half."""
        return _ranked(gains)[: _half(gains)]

    def most_compared(self, candidates: int) -> int:
        """How many may be left to race on validation tasks."""
        return max(2, (candidates + 1) // 2)

    def most_attempts(self, candidates: int, tasks: int, val: int) -> tuple[int, int]:
        """How many a step may take, on its own tasks and on validation tasks."""
        screened = min(tasks, self.screen) if self.screen else tasks
        left, compared = self.most_compared(candidates), 0
        while left > 1:
            compared += left * min(val, self.block)
            left = (left + 1) // 2
        return candidates * screened, compared


def _ranked(gains: Mapping[str, float]) -> list[str]:
    """The best first; of equals, whoever was named first."""
    return sorted(gains, key=lambda name: -gains[name])


def _half(gains: Mapping[str, float]) -> int:
    return (len(gains) + 1) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoParents:
    """Draws a parent among skills that are the best on some task, by how many tasks that are."""

    metric: Metric
    seed: int = 42

    def __call__(self, pool: Sequence[Measured], step: int) -> Measured:
        """Depends on the pool and the step alone."""
        wins = self._wins(pool)
        if not any(wins):
            return pool[-1]
        return drawn(pool, [len(each) for each in wins], f"{self.seed} parent {step}")

    def _wins(self, pool: Sequence[Measured]) -> list[set[str]]:
        """By skill, the tasks on which nobody is better; none for a skill that others cover."""
        marks = [self.metric.marks(each.evaluation) for each in pool]
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
        return wins
