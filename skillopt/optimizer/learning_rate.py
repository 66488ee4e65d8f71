"""Learning rates: how many proposals a step may use, by schedule or by what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi
from statistics import fmean
from typing import ClassVar

from pydantic import Field

from skillopt.core.costs import MANY, MAYBE, PartCost, StepSize
from skillopt.core.memory import Memory
from skillopt.core.proposal import ProposalSet, Rate
from skillopt.core.rollout import Batches, Score
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.parts import OptimizerTools, RateControl, Schedule
from skillopt.optimizer.replies import Reasoned, Text, Words
from skillopt.optimizer.sections import memory_sections, proposals_section, skill_section
from skillopt.prompts.ask import Asker, PromptQuestion


def unbounded(step: int, total: int) -> None:
    """Everything proposed is used."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Schedule `constant`; the others start from its rate as well."""

    learning_rate: int
    min_learning_rate: int = 0

    @property
    def lowest(self) -> int:
        return min(self.min_learning_rate, self.learning_rate)

    def __call__(self, step: int, total: int) -> int:
        # A single step is made at full rate.
        rate = self.rate(step, total) if total > 1 else self.learning_rate
        return max(self.lowest, round(rate))

    def rate(self, step: int, total: int) -> float:
        return self.learning_rate


class Linear(Constant):
    """Schedule `linear`: from high to low in a straight line."""

    def rate(self, step: int, total: int) -> float:
        return self.learning_rate + (self.lowest - self.learning_rate) * step / total


class Cosine(Constant):
    """Schedule `cosine`: from high to low, slowly at both ends."""

    def rate(self, step: int, total: int) -> float:
        share = (1 + cos(pi * step / total)) / 2
        return self.lowest + (self.learning_rate - self.lowest) * share


class LeftOpen(Constant):
    """Schedule `autonomous`: the optimizer decides; the lowest rate if it does not."""

    def control(self, tools: OptimizerTools) -> RateControl:
        return AutonomousOr(asker=tools.asker, lowest=self.lowest)


class Fixed:
    """Control `fixed`: as scheduled."""

    async def __call__(
        self,
        skill: Skill,
        batches: Batches,
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate | None:
        return None


class Unlimited(Fixed):
    """Control `none`: everything proposed is used."""

    schedule: Schedule = staticmethod(unbounded)


class RateAnswer(Reasoned):
    learning_rate: int
    confidence: Text = ""
    risk_notes: Words = Field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Autonomous:
    """Control `autonomous`: asks the optimizer, once the proposals are merged."""

    asker: Asker

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        yield PartCost("learning rate", MAYBE, "lr_autonomous", 2000)

    def most(self, allowed: int) -> int:
        """It may use more than is scheduled."""
        return max(MANY, allowed)

    def fallback(self, scheduled: int | None) -> int | None:
        """What holds without a usable answer; None: all proposals."""
        return scheduled

    async def __call__(
        self,
        skill: Skill,
        batches: Batches,
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate:
        available = len(merged.proposals)
        question = PromptQuestion(
            stage="lr_autonomous",
            sections=[
                skill_section(skill),
                *memory_sections(memory),
                await _rollout_section(batches),
                proposals_section(merged.proposals),
            ],
            shape=RateAnswer,
        )
        answer = await self.asker.answer(question, "learning_rate")
        if isinstance(answer, Unusable):
            held = self.fallback(scheduled)
            value = available if held is None else min(held, available)
            return Rate(value=value, available=available, problem=str(answer))
        return Rate(
            value=max(0, min(answer.learning_rate, available)),
            wanted=answer.learning_rate,
            available=available,
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            risks=tuple(answer.risk_notes),
            reply=answer.model_dump_json(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutonomousOr(Autonomous):
    lowest: int

    def fallback(self, scheduled: int | None) -> int | None:
        return self.lowest


@dataclass(frozen=True, slots=True)
class Steadying:
    """Control `volatility`: falls as recent candidates made tasks worse, rises as they agree."""

    learning_rate: int
    min_learning_rate: int
    reads_all_scores: ClassVar[bool] = True

    @property
    def schedule(self) -> Schedule:
        return Constant(self.learning_rate)

    async def __call__(
        self,
        skill: Skill,
        batches: Batches,
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate:
        """The scheduled rate at volatility 0, the lowest from one half on, even steps between."""
        low = min(self.min_learning_rate, self.learning_rate)
        high = low if scheduled is None else scheduled
        calm = 1 - min(1.0, 2 * memory.volatility)
        return Rate(
            value=low + round((high - low) * calm),
            available=len(merged.proposals),
            reasoning=(
                f"volatility {memory.volatility:.2f}: of what recent candidates changed, "
                "this share got worse"
            ),
            volatility=memory.volatility,
        )


async def _rollout_section(batches: Batches) -> str:
    outcomes = [rollout.outcome for batch in batches async for rollout in batch]
    scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
    hard = fmean(score.hard for score in scores) if scores else 0.0
    soft = fmean(score.soft for score in scores) if scores else 0.0
    return f"<rollout>\nn: {len(scores)}\nhard: {hard:.4f}\nsoft: {soft:.4f}\n</rollout>"
