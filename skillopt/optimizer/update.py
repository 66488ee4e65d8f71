"""Update modes: chosen proposals to a candidate skill; and the limit on its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import Field

from skillopt.core.costs import MAYBE, PartCost, StepSize
from skillopt.core.edits import Append, Change, Edit, Rewrite, Suggestion, apply_edits
from skillopt.core.memory import Memory
from skillopt.core.proposal import Proposal, Rewritten, Selection
from skillopt.core.sink import EventSink
from skillopt.core.skill import Skill
from skillopt.core.tokens import estimate
from skillopt.errors import Unusable
from skillopt.optimizer.locate import forgiving
from skillopt.optimizer.parts import Update
from skillopt.optimizer.replies import (
    Analysis,
    Form,
    Merge,
    Reasoned,
    RewriteAnswer,
    SuggestionAnswer,
    Words,
    with_items,
)
from skillopt.optimizer.sections import body_section, memory_sections, proposals_section
from skillopt.prompts.ask import Asker, PromptQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Update mode `patch`: applies the edits one after another, in order of priority."""

    sink: EventSink

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        with self.sink.phase("update", len(chosen.proposals)):
            applied = apply_edits(skill, edits_in(chosen.proposals), forgiving)
        return Update(applied.skill, applied.report)


class BodyAnswer(Reasoned):
    change_summary: Words = Field(default_factory=list[str])
    new_skill: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Update mode `rewrite_from_suggestions`: one question that shows the chosen suggestions."""

    asker: Asker
    rewrite_tokens: int | None = None
    rewrite_effort: str | None = None
    form: ClassVar[Form] = Form(
        suffix="_rewrite",
        analysis=with_items(Analysis, "revise_suggestions", SuggestionAnswer),
        merge=with_items(Merge, "revise_suggestions", SuggestionAnswer),
    )

    def cost(self, size: StepSize) -> Iterator[PartCost]:
        yield PartCost("rewrite", MAYBE, "rewrite_skill", 2000, whole=True)

    async def __call__(self, skill: Skill, chosen: Selection, memory: Memory) -> Update:
        """The candidate, unless no usable body came back."""
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
            max_tokens=self.rewrite_tokens,
            effort=self.rewrite_effort,
        )
        answer = await self.asker.answer(question, "update")
        if isinstance(answer, Unusable):
            return Update(None, rewritten=Rewritten(problem=str(answer)))
        rewritten = Rewritten(summary=tuple(answer.change_summary), reasoning=answer.reasoning)
        return Update(skill.with_body(answer.new_skill), rewritten=rewritten)


BODIES = Form(
    suffix="_full_rewrite",
    analysis=with_items(Analysis, "skill_candidates", RewriteAnswer),
    merge=with_items(Merge, "skill_candidates", RewriteAnswer),
    show=body_section,
    whole=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Update mode `full_rewrite_minibatch`: takes over the chosen body as it is."""

    sink: EventSink
    rewrite_tokens: int | None = None

    @property
    def form(self) -> Form:
        return replace(BODIES, max_tokens=self.rewrite_tokens)

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
    for proposal in proposals:
        if (edit := as_edit(proposal.edit)) is not None:
            yield edit


def control(skill: Skill) -> Skill:
    """The skill in another text that says the same: with a line that says nothing.

    Any text changes some answers by chance. What an edit repairs of tasks that were chosen because
    they fail with the skill as it is may be just that; so it is compared with this.
    """
    return apply_edits(skill, [Append("Keep these notes in mind while you work.")]).skill


def as_edit(change: Change) -> Edit | None:
    """The change, if it is one that can be applied alone."""
    return None if isinstance(change, Suggestion | Rewrite) else change


class CompressAnswer(Reasoned):
    compressed_skill: str


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

        question = PromptQuestion(
            stage="compress",
            prompt="compress_skill",
            sections=[body_section(skill), f"<limit>{room}</limit>"],
            shape=CompressAnswer,
            check=complaint,
            max_tokens=self.max_tokens,
        )
        answer = await self.asker.answer(question, "compress")
        if isinstance(answer, Unusable):
            return skill, str(answer)
        return skill.with_body(answer.compressed_skill), ""
