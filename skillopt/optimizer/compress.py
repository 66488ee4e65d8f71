"""Limits the size of the skill: one call that shortens a candidate."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate
from skillopt.errors import Unusable
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.replies import CompressAnswer
from skillopt.prompts.sections import body_section


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """Has the body shortened; front matter and regions are what they are."""

    asker: Asker
    limit: int
    max_tokens: int | None = None

    async def shorten(self, skill: Skill) -> tuple[Skill, str]:
        """The skill with a body that fits; or as it was, and why."""
        aside = estimate(skill.with_body("").render())
        room = self.limit - aside
        if room <= 0:
            return skill, (
                f"front matter and protected regions alone have {aside} tokens, and "
                f"optimizer.max_skill_tokens is {self.limit}"
            )

        def complaint(answer: CompressAnswer) -> str:
            if not answer.compressed_skill.strip():
                return '"compressed_skill" is empty.'
            tokens = estimate(skill.with_body(answer.compressed_skill).render()) - aside
            over = f"the text has about {tokens} tokens, and only {room} are allowed."
            return over if tokens > room else ""

        with self.asker.sink.phase("compress", 1) as progress:
            question = PromptQuestion(
                stage="compress",
                prompt="compress_skill",
                sections=[body_section(skill), f"<limit>{room}</limit>"],
                shape=CompressAnswer,
                check=complaint,
                max_tokens=self.max_tokens,
            )
            try:
                answer = await self.asker.ask(question)
            except Unusable as error:
                progress.tick("failed")
                return skill, str(error)
            progress.tick()
        return skill.with_body(answer.compressed_skill), ""
