"""Learning rates: how many proposals a step may use, by schedule or by what was seen."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from math import cos, pi
from statistics import fmean

from skillopt.core.memory import Memory
from skillopt.core.proposal import ProposalSet, Rate
from skillopt.core.rollout import Rollout, Score
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.replies import RateAnswer
from skillopt.optimizer.sections import memory_sections, proposals_section, skill_section
from skillopt.prompts.ask import Asker, PromptQuestion


def unbounded(step: int, total: int) -> None:
    """No rate: everything proposed is used."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    high: int

    def __call__(self, step: int, total: int) -> int:
        """The rate."""
        return self.high


@dataclass(frozen=True, slots=True)
class Linear:
    """From high to low in a straight line."""

    high: int
    low: int

    def __call__(self, step: int, total: int) -> int:
        """The rate; a single step is made at full rate."""
        if total <= 1:
            return self.high
        return max(self.low, round(self.high + (self.low - self.high) * step / total))


@dataclass(frozen=True, slots=True)
class Cosine:
    """From high to low, slowly at both ends."""

    high: int
    low: int

    def __call__(self, step: int, total: int) -> int:
        """The rate; a single step is made at full rate."""
        if total <= 1:
            return self.high
        share = (1 + cos(pi * step / total)) / 2
        return max(self.low, round(self.low + (self.high - self.low) * share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Autonomous:
    """Asks the optimizer, once the proposals are merged."""

    asker: Asker
    fallback: int | None = None
    """What holds without a usable answer; None: the scheduled rate."""

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate:
        """What the answer says, held to the number of proposals."""
        available = len(merged.proposals)
        with self.asker.sink.phase("learning_rate", 1) as progress:
            question = PromptQuestion(
                stage="lr_autonomous",
                prompt="lr_autonomous",
                sections=[
                    skill_section(skill),
                    *memory_sections(memory),
                    await _rollout_section(batches),
                    proposals_section(merged.proposals),
                ],
                shape=RateAnswer,
            )
            try:
                answer = await self.asker.ask(question)
            except Unusable as error:
                progress.tick("failed")
                held = scheduled if self.fallback is None else self.fallback
                value = available if held is None else min(held, available)
                return Rate(value=value, available=available, problem=str(error))
            progress.tick()
        return Rate(
            value=max(0, min(answer.learning_rate, available)),
            wanted=answer.learning_rate,
            available=available,
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            risks=tuple(answer.risk_notes),
            reply=answer.model_dump_json(),
        )


@dataclass(frozen=True, slots=True)
class Steadying:
    """Falls as recent candidates made tasks worse, and rises again as they agree."""

    low: int

    async def __call__(
        self,
        skill: Skill,
        batches: Sequence[AsyncIterable[Rollout]],
        merged: ProposalSet,
        memory: Memory,
        *,
        scheduled: int | None,
    ) -> Rate:
        """The scheduled rate at volatility 0, the lowest from one half on, even steps between."""
        high = self.low if scheduled is None else scheduled
        calm = 1 - min(1.0, 2 * memory.volatility)
        return Rate(
            value=self.low + round((high - self.low) * calm),
            available=len(merged.proposals),
            reasoning=(
                f"volatility {memory.volatility:.2f}: of what recent candidates changed, "
                "this share got worse"
            ),
            volatility=memory.volatility,
        )


async def _rollout_section(batches: Sequence[AsyncIterable[Rollout]]) -> str:
    outcomes = [rollout.outcome for batch in batches async for rollout in batch]
    scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
    hard = fmean(score.hard for score in scores) if scores else 0.0
    soft = fmean(score.soft for score in scores) if scores else 0.0
    return f"<rollout>\nn: {len(scores)}\nhard: {hard:.4f}\nsoft: {soft:.4f}\n</rollout>"
