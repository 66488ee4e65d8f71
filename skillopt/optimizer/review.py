"""The review at the end of an epoch: guidance for the skill, lessons for the optimizer."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from skillopt.aio import map_all
from skillopt.core.memory import Memory
from skillopt.core.proposal import Review
from skillopt.core.rollout import Pair
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.meta_skill import MetaSkill
from skillopt.optimizer.slow_update import SlowUpdate


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One of the two texts; None when there is nothing new."""

    text: str | None = None
    reasoning: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """Asks both questions at the same time; either may be switched off."""

    slow_update: SlowUpdate | None
    meta_skill: MetaSkill | None

    async def review(
        self, before: Skill, after: Skill, pairs: Sequence[Pair], memory: Memory, *, last: bool
    ) -> Review:
        """Lessons are for later epochs, so after the last one none are asked for."""
        questions: list[Awaitable[tuple[str, str]] | None] = [
            self.slow_update(before, after, pairs) if self.slow_update else None,
            self.meta_skill(before, after, pairs, memory) if self.meta_skill and not last else None,
        ]
        guidance, lessons = await map_all(_conclude, questions)
        return Review(
            guidance.text,
            guidance.reasoning,
            lessons.text,
            lessons.reasoning,
            tuple(each.problem for each in (guidance, lessons) if each.problem),
        )


async def _conclude(asking: Awaitable[tuple[str, str]] | None) -> Conclusion:
    if asking is None:
        return Conclusion()
    try:
        text, reasoning = await asking
    except Unusable as error:
        return Conclusion(problem=str(error))
    return Conclusion(text or None, reasoning)
