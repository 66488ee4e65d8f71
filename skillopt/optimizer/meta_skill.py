"""Meta skill: lessons for the optimizer, which are not part of the skill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.core.memory import Memory
from skillopt.core.rollout import Pair
from skillopt.core.skill import Skill
from skillopt.optimizer.slow_update import comparison
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.replies import MetaSkillAnswer
from skillopt.prompts.sections import memory_sections


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
