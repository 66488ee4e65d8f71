"""Slow update: guidance from comparing two skills on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.core.rollout import Change, Pair
from skillopt.core.skill import Skill
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import Digest
from skillopt.prompts.replies import SlowUpdateAnswer
from skillopt.prompts.sections import pair_sections, skill_section

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
