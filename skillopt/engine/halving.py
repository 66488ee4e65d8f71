"""Compares several candidates on the same tasks until one is left for the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from skillopt.core.events import Measured
from skillopt.core.ports import CompleteGate, HalvingSchedule
from skillopt.core.proposal import Round
from skillopt.core.rollout import Evaluation, Rollout
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.engine.rollouts import Incumbent, RolloutRunner


@dataclass(frozen=True, slots=True)
class Baseline:
    """Tasks of a split, and a skill that has met all of them."""

    split: Split
    tasks: Mapping[str, Task]
    skill: Skill
    known: Evaluation

    @classmethod
    def val(cls, tasks: Sequence[Task], incumbent: Measured) -> Baseline:
        """The validation tasks, and the skill that is to be beaten there."""
        return cls("val", _named(tasks), incumbent.skill, incumbent.evaluation)

    @classmethod
    def train(
        cls, batches: Sequence[Sequence[Task]], skill: Skill, rollouts: Iterable[Rollout]
    ) -> Baseline:
        """The tasks of a step, and how the skill it set out from did on them."""
        known = Evaluation.of(skill.digest, "train", rollouts)
        return cls("train", _named(chain(*batches)), skill, known)


@dataclass(frozen=True, slots=True)
class HalvingResult:
    """How a race ended."""

    ahead: str | None
    """Who is to meet the gate; None: nobody is worth it."""
    rounds: tuple[Round, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessiveHalving:
    """What it takes to race candidates."""

    runner: RolloutRunner
    schedule: HalvingSchedule
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
        screening = schedule.screening(practice.known)
        rounds = await self._rounds(
            "screen", field, practice, screening, schedule.screened, least=1
        )
        ahead = {name: field[name] for name in rounds[-1].kept} if rounds else {}
        blocks: Sequence[Sequence[str]] = ()
        if len(ahead) > 1 and worth(len(ahead)):
            blocks = schedule.blocks(list(final.tasks), step)
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
        found = {name: Evaluation(each.digest, ground.split, {}) for name, each in field.items()}
        rounds: list[Round] = []
        for block in blocks:
            if len(field) < least:
                break
            tasks = [ground.tasks[each] for each in block]
            trials = [(skill, tasks) for skill in field.values()]
            reference = Incumbent(ground.skill, ground.known)
            results = await self.runner.measure_each(trials, ground.split, phase, against=reference)
            for name, result in zip(field, results, strict=True):
                found[name] = found[name].joined(result)
            gains = {name: self._gain(skill, found[name], ground) for name, skill in field.items()}
            kept = tuple(keep(gains))
            rounds.append(Round(ground.split, len(block), gains, kept))
            field = {name: field[name] for name in kept}
        return rounds

    def _gain(self, skill: Skill, found: Evaluation, ground: Baseline) -> float:
        new, old = found.beside(ground.known)
        return self.gate.value(skill, new) - self.gate.value(ground.skill, old)


def _named(tasks: Iterable[Task]) -> dict[str, Task]:
    return {each.id: each for each in tasks}
