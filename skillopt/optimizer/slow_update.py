"""The end of an epoch: guidance for the skill, lessons for the optimizer (meta skill)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from skillopt.aio import map_all
from skillopt.core.memory import Memory
from skillopt.core.proposal import Review
from skillopt.core.rollout import Change, Pair
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.replies import MetaSkillAnswer, SlowUpdateAnswer
from skillopt.optimizer.sections import memory_sections, pair_sections, skill_section
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaSkill:
    """Rewrites the lessons that later epochs reflect, merge and rank with."""

    asker: Asker

    async def __call__(
        self, before: Skill, after: Skill, pairs: Sequence[Pair], memory: Memory
    ) -> tuple[str, str]:
        """New lessons and the reasoning for them; empty lessons mean: keep the old ones."""
        with self.asker.sink.phase("meta_skill", 1) as progress:
            question = PromptQuestion(
                stage="meta_skill",
                prompt="meta_skill",
                sections=[
                    *memory_sections(memory),
                    *comparison(before, after, pairs, self.asker.digest),
                ],
                shape=MetaSkillAnswer,
            )
            answer = await self.asker.ask(question)
            progress.tick()
            return answer.meta_skill_content.strip(), answer.reasoning


_ORDER: tuple[Change, ...] = ("regressed", "persistent_fail", "improved", "stable_success")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowUpdate:
    """Writes the protected guidance region anew."""

    asker: Asker

    async def __call__(self, before: Skill, after: Skill, pairs: Sequence[Pair]) -> tuple[str, str]:
        """New guidance and the reasoning for it; empty guidance means: leave it."""
        with self.asker.sink.phase("slow_update", 1) as progress:
            sections = [
                *comparison(before, after, pairs, self.asker.digest),
                f"<guidance>\n{after.guidance}\n</guidance>",
            ]
            question = PromptQuestion(
                stage="slow_update",
                prompt="slow_update",
                sections=sections,
                shape=SlowUpdateAnswer,
            )
            answer = await self.asker.ask(question)
            progress.tick()
            return answer.slow_update_content.strip(), answer.reasoning


def comparison(before: Skill, after: Skill, pairs: Sequence[Pair], digest: Digest) -> list[str]:
    """Both skills, how many tasks changed and how, and the pairs: regressions first."""
    kinds = [pair.change for pair in pairs]
    counts = "\n".join(f"{kind}: {kinds.count(kind)}" for kind in _ORDER)
    shown = [pair for kind in _ORDER for pair in pairs if pair.change == kind]
    return [
        skill_section(before, "previous_skill"),
        skill_section(after),
        f"<counts>\n{counts}\n</counts>",
        *pair_sections(shown, digest),
    ]


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
