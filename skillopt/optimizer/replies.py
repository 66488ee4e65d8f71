"""The formats of proposals and of the answers that hold them, and their conversion into values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from skillopt.core.edits import (
    Aim,
    Append,
    Change,
    Delete,
    Edit,
    InsertAfter,
    Replace,
    Rewrite,
    Suggestion,
)
from skillopt.core.proposal import ProposalSet
from skillopt.core.skill import MAIN, Skill
from skillopt.optimizer.sections import skill_section


def one_word(value: object) -> object:
    """Models write `Insert After`, `add` and `remove` too."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower().replace(" ", "_").replace("-", "_")
    return {"add": "append", "insert": "insert_after", "remove": "delete"}.get(word, word)


def _text(value: object) -> object:
    return "" if value is None else value


def _file(value: object) -> object:
    """Models write `skill.md` and `./references/x.md` too, or nothing."""
    if not isinstance(value, str):
        return MAIN if value is None else value
    path = value.strip().removeprefix("./")
    return MAIN if path.lower() in {"", MAIN.lower()} else path


def _listed(value: object) -> object:
    return [] if value is None else [value] if isinstance(value, str | int) else value


Text = Annotated[str, BeforeValidator(_text)]
Words = Annotated[list[str], BeforeValidator(_listed)]
Numbers = Annotated[list[int], BeforeValidator(_listed)]


class ReplyShape(BaseModel):
    """Base of all answers: unknown extra fields are ignored, numbers may stand for text."""

    # Deferred, because most runs read answers of few shapes.
    model_config = ConfigDict(coerce_numbers_to_str=True, populate_by_name=True, defer_build=True)


class Reasoned(ReplyShape):
    reasoning: Text = ""


class ItemAnswer(ReplyShape, ABC):
    """One proposal as a model writes it."""

    why: Text = ""
    tasks: Words = Field(default_factory=list[str])
    """Ids of the attempts that speak for it."""
    sources: Numbers = Field(default_factory=list[int], alias="from")
    """Indices of the proposals that it was merged from."""

    @abstractmethod
    def change(self) -> Change: ...


class EditAnswer(ItemAnswer):
    op: Annotated[Literal["append", "insert_after", "replace", "delete"], BeforeValidator(one_word)]
    target: Text = ""
    content: Text = ""
    file: Annotated[str, BeforeValidator(_file)] = MAIN
    """Which file of a package it changes."""

    def change(self) -> Edit:
        if self.op == "append":
            return Append(self.content, file=self.file)
        if self.op == "delete":
            return Delete(self.target, file=self.file)
        kind = InsertAfter if self.op == "insert_after" else Replace
        return kind(self.target, self.content, file=self.file)


class SuggestionAnswer(ItemAnswer):
    type: Annotated[Aim, BeforeValidator(one_word)] = "clarify"
    title: Text = ""
    why: Text = Field("", alias="motivation")
    instruction: str
    priority_hint: Text = ""

    def change(self) -> Suggestion:
        instruction = self.instruction.strip()
        return Suggestion(self.type, self.title.strip(), instruction, self.priority_hint.strip())


class RewriteAnswer(ItemAnswer):
    title: Text = ""
    change_summary: Words = Field(default_factory=list[str])
    new_skill: str

    def change(self) -> Rewrite:
        return Rewrite(self.title.strip(), tuple(self.change_summary), self.new_skill)


class PatternAnswer(ReplyShape):
    name: str
    count: int = 1
    description: Text = ""
    tasks: Words = Field(default_factory=list[str])


class Analysis(Reasoned):
    patterns: list[PatternAnswer] = Field(default_factory=list[PatternAnswer])
    appendix_notes: Words = Field(default_factory=list[str])
    """Reminders, where they are asked for."""
    items: Sequence[ItemAnswer]
    """The proposals; each form has its own key for them."""


class Merge(Reasoned):
    items: Sequence[ItemAnswer]

    def complaint(self, given: ProposalSet) -> str:
        """What is wrong with the sources that the proposals name."""
        last = len(given.proposals) - 1
        for item in self.items:
            if not item.sources:
                return 'every entry needs "from": the indices of the proposals it unites.'
            if any(not 0 <= index <= last for index in item.sources):
                return f'"from" may name only proposals 0 to {last}, not {item.sources}.'
        return ""


M = TypeVar("M", Analysis, Merge)


def with_items(shape: type[M], key: str, item: type[ItemAnswer]) -> type[M]:
    """The shape with proposals of one form, under their key."""
    return create_model(
        f"{item.__name__}{shape.__name__}",
        __base__=shape,
        items=(list[item], Field(alias=key)),  # pyright: ignore[reportInvalidTypeForm]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of proposals: the prompts that ask for it, and the format of the answers."""

    suffix: str
    """Suffix of the names of its prompts."""
    analysis: type[Analysis]
    merge: type[Merge]
    show: Callable[[Skill], str] = skill_section
    """How a prompt shows the document."""
    whole: bool = False
    """Whether a proposal is a whole body instead of a change: then only one can be taken."""
    max_tokens: int | None = None
    """Maximum tokens of a reply; None: the setting of the model."""


EDITS: Final = Form(
    suffix="",
    analysis=with_items(Analysis, "edits", EditAnswer),
    merge=with_items(Merge, "edits", EditAnswer),
)
