"""Successive halving: which candidate meets the gate, and which skill a step starts from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skillopt.core.events import Measured
from skillopt.core.ports import CompleteGate
from skillopt.core.proposal import Round
from skillopt.core.rollout import EQUAL, Evaluation
from skillopt.core.seeds import blocks, drawn, shuffled
from skillopt.core.skill import Skill
from skillopt.core.task import Task
from skillopt.engine.rollouts import RolloutRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class HalveByGain:
    """Whoever gains on the step's own tasks is screened in; each round then halves the field."""

    marks: Callable[[Evaluation], Mapping[str, float]]
    """The score of each task by the metric of the run."""
    screen: int
    """Tasks of the step that candidates are screened on; 0: all of them."""
    block: int
    """Validation tasks of a round."""
    seed: int = 42

    def screening(self, known: Evaluation) -> list[list[str]]:
        """First tasks that can be repaired, then as many that can be broken."""
        marks = self.marks(known)
        faulty = [task for task, mark in marks.items() if mark < 1 - EQUAL]
        sound = [task for task in marks if task not in faulty]
        if not faulty:
            return []
        if self.screen:
            faulty = faulty[: max(1, self.screen // 2)]
            sound = sound[: self.screen - len(faulty)]
        return [tasks for tasks in (faulty, sound) if tasks]

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
    return sorted(gains, key=lambda name: -gains[name])


def _half(gains: Mapping[str, float]) -> int:
    return (len(gains) + 1) // 2


@dataclass(frozen=True, slots=True)
class Baseline:
    """Tasks, and a skill that has met all of them."""

    tasks: Sequence[Task]
    measured: Measured


@dataclass(frozen=True, slots=True)
class HalvingResult:
    ahead: str | None
    """Who is to meet the gate; None: nobody is worth it."""
    rounds: tuple[Round, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessiveHalving:
    """What it takes to race candidates."""

    runner: RolloutRunner
    schedule: HalveByGain
    gate: CompleteGate

    async def run(
        self,
        field: Mapping[str, Skill],
        practice: Baseline,
        final: Baseline,
        step: int,
        worth: Callable[[int], bool],
    ) -> HalvingResult:
        """Screen on the practice ground; halve on the final one while there is a choice.

        What the winner has met on the final ground, it need not meet again before the gate.
        `worth` says whether the gate could accept the best of so many; if not, they are not raced,
        and the first of the screening meets the gate.
        """
        schedule = self.schedule
        screening = schedule.screening(practice.measured.evaluation)
        rounds = await self._rounds(
            "screen", field, practice, screening, schedule.screened, least=1
        )
        ahead = {name: field[name] for name in rounds[-1].kept} if rounds else {}
        blocks: Sequence[Sequence[str]] = ()
        if len(ahead) > 1 and worth(len(ahead)):
            blocks = schedule.blocks([task.id for task in final.tasks], step)
        rounds += await self._rounds("race", ahead, final, blocks, schedule.halved, least=2)
        return HalvingResult(next(iter(rounds[-1].kept if rounds else ()), None), tuple(rounds))

    async def _rounds(
        self,
        phase: str,
        field: Mapping[str, Skill],
        ground: Baseline,
        blocks: Sequence[Sequence[str]],
        keep: Callable[[Mapping[str, float]], Sequence[str]],
        *,
        least: int,
    ) -> list[Round]:
        """One after another, while so many are left."""
        known = ground.measured.evaluation
        tasks = {task.id: task for task in ground.tasks}
        results = {name: Evaluation(skill.digest, known.split, {}) for name, skill in field.items()}
        rounds: list[Round] = []
        for block in blocks:
            if len(field) < least:
                break
            trials = [(skill, [tasks[task] for task in block]) for skill in field.values()]
            measured = await self.runner.measure_each(
                trials, known.split, phase, against=ground.measured
            )
            for name, result in zip(field, measured, strict=True):
                results[name] = results[name].joined(result)
            gains = {
                name: self._gain(skill, results[name], ground.measured)
                for name, skill in field.items()
            }
            kept = tuple(keep(gains))
            rounds.append(Round(known.split, len(block), gains, kept))
            field = {name: field[name] for name in kept}
        return rounds

    def _gain(self, skill: Skill, evaluation: Evaluation, parent: Measured) -> float:
        new, old = evaluation.beside(parent.evaluation)
        return self.gate.value(skill, new) - self.gate.value(parent.skill, old)


ParentChoice: TypeAlias = Callable[[Sequence[Measured], int], Measured]
"""Chooses, from all skills that have been current, the one that a step (by number) starts from."""


def current(pool: Sequence[Measured], step: int) -> Measured:
    """Every step starts from the current skill: the last one."""
    return pool[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoParents:
    """Draws a parent among skills that are the best on some task, by how many tasks that are."""

    marks: Callable[[Evaluation], Mapping[str, float]]
    seed: int = 42

    def __call__(self, pool: Sequence[Measured], step: int) -> Measured:
        wins = self._wins(pool)
        if not any(wins):
            return pool[-1]
        return drawn(pool, [len(tasks) for tasks in wins], f"{self.seed} parent {step}")

    def _wins(self, pool: Sequence[Measured]) -> list[set[str]]:
        """By skill, the tasks on which nobody is better; none for a skill that others cover."""
        marks = [self.marks(skill.evaluation) for skill in pool]
        best: dict[str, float] = {}
        for scores in marks:
            for task, mark in scores.items():
                best[task] = max(mark, best.get(task, mark))
        wins = [
            {task for task, mark in scores.items() if mark >= best[task] - EQUAL}
            for scores in marks
        ]
        for at in sorted(range(len(pool)), key=lambda at: (pool[at].value, at)):
            others = set[str]().union(*(tasks for n, tasks in enumerate(wins) if n != at))
            if wins[at] <= others and any(wins[n] for n in range(len(pool)) if n != at):
                wins[at] = set()
        return wins
