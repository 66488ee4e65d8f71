"""The end of an epoch: guidance for the skill, lessons for the optimizer (meta skill)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from pydantic import Field

from skillopt.aio import map_all
from skillopt.core.costs import MAYBE, PartCost, StepSize
from skillopt.core.memory import Memory
from skillopt.core.proposal import Review
from skillopt.core.rollout import CHANGED, UNCHANGED, Change, Pair
from skillopt.core.skill import Skill
from skillopt.errors import Unusable
from skillopt.optimizer.replies import Reasoned
from skillopt.optimizer.sections import memory_sections, pair_sections, skill_section
from skillopt.prompts.ask import Asker, PromptQuestion
from skillopt.prompts.digest import Digest

_ORDER: tuple[Change, ...] = ("regressed", "persistent_fail", "improved", "stable_success")


class Mixed:
    """Pair policy `mixed`: tasks with any change are shown."""

    def __call__(self, change: Change) -> bool:
        return True


class Changed:
    """Pair policy `changed`: those that got better or worse, from as many tasks as it takes."""

    searches: ClassVar[bool] = True

    def __call__(self, change: Change) -> bool:
        return change in CHANGED


class Unchanged:
    """Pair policy `unchanged`."""

    def __call__(self, change: Change) -> bool:
        return change in UNCHANGED


class GuidanceAnswer(Reasoned):
    text: str = Field(alias="slow_update_content")


class LessonsAnswer(Reasoned):
    text: str = Field(alias="meta_skill_content")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LookBack:
    """Asks for new guidance and new lessons at the same time; either may be switched off."""

    asker: Asker
    guides: bool
    """Whether the protected guidance region is written anew."""
    teaches: bool
    """Whether the lessons are that later epochs reflect, merge and rank with."""

    async def review(
        self, before: Skill, after: Skill, pairs: Sequence[Pair], memory: Memory, *, last: bool
    ) -> Review:
        """Lessons are for later epochs, so after the last one none are asked for."""
        compared = comparison(before, after, pairs, self.asker.digest)
        region = f"<guidance>\n{after.guidance}\n</guidance>"

        async def conclude(stage: str) -> _Conclusion:
            if stage == "slow_update":
                wanted, shape, sections = self.guides, GuidanceAnswer, [*compared, region]
            else:
                wanted, shape = self.teaches and not last, LessonsAnswer
                sections = [*memory_sections(memory), *compared]
            if not wanted:
                return _Conclusion()
            question = PromptQuestion(stage=stage, sections=sections, shape=shape)
            answer = await self.asker.answer(question, stage)
            if isinstance(answer, Unusable):
                return _Conclusion(problem=str(answer))
            return _Conclusion(answer.text.strip() or None, answer.reasoning)

        guidance, lessons = await map_all(conclude, ["slow_update", "meta_skill"])
        problems = tuple(each.problem for each in (guidance, lessons) if each.problem)
        return Review(guidance.text, guidance.reasoning, lessons.text, lessons.reasoning, problems)

    def cost(self, size: StepSize, *, last: bool) -> Iterator[PartCost]:
        """`size.batches` are the tasks that are compared."""
        shown = 2 * size.tasks * size.attempt_tokens
        if self.guides:
            yield PartCost("slow update", MAYBE, "slow_update", shown)
        if self.teaches and not last:
            yield PartCost("meta skill", MAYBE, "meta_skill", shown)


class _Conclusion(NamedTuple):
    """One of the two texts; None when there is nothing new."""

    text: str | None = None
    reasoning: str = ""
    problem: str = ""
