"""Chosen proposals to a candidate skill, and the limit on its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skillopt.core.edits import Change, Edit, Rewrite, Suggestion, apply_edits
from skillopt.core.memory import Memory
from skillopt.core.proposal import Proposal, Rewritten, Selection
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate
from skillopt.errors import Unusable
from skillopt.optimizer.locate import forgiving
from skillopt.optimizer.pipeline import Update
from skillopt.optimizer.replies import BodyAnswer, CompressAnswer
from skillopt.optimizer.sections import body_section, memory_sections, proposals_section
from skillopt.prompts.ask import Asker, PromptQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Applies the edits one after another, in order of priority."""

    sink: EventSink

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        """The candidate, with a report on every edit."""
        with self.sink.phase("update", len(chosen.proposals)):
            applied = apply_edits(skill, edits_in(chosen.proposals), forgiving)
        return Update(applied.skill, applied.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Has the body rewritten by one question that shows the chosen suggestions."""

    asker: Asker
    max_tokens: int | None = None
    effort: str | None = None

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        """The candidate, unless no usable body came back."""
        with self.asker.sink.phase("update", 1) as progress:
            question = PromptQuestion(
                stage="rewrite",
                prompt="rewrite_skill",
                sections=[
                    body_section(skill),
                    *memory_sections(Memory(steps=memory.steps)),
                    proposals_section(chosen.proposals),
                ],
                shape=BodyAnswer,
                check=lambda answer: "" if answer.new_skill.strip() else '"new_skill" is empty.',
                max_tokens=self.max_tokens,
                effort=self.effort,
            )
            try:
                answer = await self.asker.ask(question)
            except Unusable as error:
                progress.tick("failed")
                return Update(None, rewritten=Rewritten(problem=str(error)))
            progress.tick()
        rewritten = Rewritten(summary=tuple(answer.change_summary), reasoning=answer.reasoning)
        return Update(skill.with_body(answer.new_skill), rewritten=rewritten)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Takes over the chosen body as it is."""

    sink: EventSink

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        """The candidate, unless none of the chosen holds a body with words."""
        with self.sink.phase("update", 1):
            for proposal in chosen.proposals:
                match proposal.edit:
                    case Rewrite(title, summary, body) if body.strip():
                        rewritten = Rewritten(title=title, summary=summary, reasoning=proposal.why)
                        return Update(skill.with_body(body), rewritten=rewritten)
                    case _:
                        pass
        return Update(None, rewritten=Rewritten(problem="every proposed body was empty"))


def edits_in(proposals: Iterable[Proposal]) -> Iterator[Edit]:
    """The edits among the proposals."""
    for proposal in proposals:
        if (edit := as_edit(proposal.edit)) is not None:
            yield edit


def as_edit(change: Change) -> Edit | None:
    """The change, if it is one that can be applied alone."""
    match change:
        case Suggestion() | Rewrite():
            return None
        case edit:
            return edit


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
