"""The formats of a model's answers, and their conversion into values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
from skillopt.core.skill import MAIN


def _word(value: object) -> object:
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


_TOOLS = {
    "ls": "list",
    "list_files": "list",
    "cat": "read",
    "open": "read",
    "read_file": "read",
    "search": "grep",
}


def _tool(value: object) -> object:
    """Models write `read_file` and `search` too."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    return _TOOLS.get(word, word)


def _first(value: object) -> object:
    return 1 if value is None else value


def _together(value: object) -> object:
    match value:
        case None:
            return []
        case dict():
            return [cast("object", value)]
        case _:
            return value


Text = Annotated[str, BeforeValidator(_text)]
Words = Annotated[list[str], BeforeValidator(_listed)]
Numbers = Annotated[list[int], BeforeValidator(_listed)]


class ReplyShape(BaseModel):
    """Base of all answers: unknown extra fields are ignored, numbers may stand for text."""

    model_config = ConfigDict(coerce_numbers_to_str=True, populate_by_name=True)


class ItemAnswer(ReplyShape, ABC):
    """One proposal as a model writes it."""

    why: Text = ""
    tasks: Words = Field(default_factory=list[str])
    """Ids of the attempts that speak for it."""
    sources: Numbers = Field(default_factory=list[int], alias="from")
    """Indices of the proposals that it was merged from."""

    @abstractmethod
    def change(self) -> Change:
        """The value."""


class EditAnswer(ItemAnswer):
    """One edit."""

    op: Annotated[Literal["append", "insert_after", "replace", "delete"], BeforeValidator(_word)]
    target: Text = ""
    content: Text = ""
    file: Annotated[str, BeforeValidator(_file)] = MAIN
    """Which file of a package it changes."""

    def change(self) -> Edit:
        """The value."""
        match self.op:
            case "append":
                return Append(self.content, file=self.file)
            case "insert_after":
                return InsertAfter(self.target, self.content, file=self.file)
            case "replace":
                return Replace(self.target, self.content, file=self.file)
            case "delete":
                return Delete(self.target, file=self.file)


class SuggestionAnswer(ItemAnswer):
    """One suggestion for a rewrite."""

    type: Annotated[Aim, BeforeValidator(_word)] = "clarify"
    title: Text = ""
    why: Text = Field("", alias="motivation")
    instruction: str
    priority_hint: Text = ""

    def change(self) -> Suggestion:
        """The value."""
        told = self.instruction.strip()
        return Suggestion(self.type, self.title.strip(), told, self.priority_hint.strip())


class RewriteAnswer(ItemAnswer):
    """One whole new body."""

    title: Text = ""
    change_summary: Words = Field(default_factory=list[str])
    new_skill: str

    def change(self) -> Rewrite:
        """The value."""
        return Rewrite(self.title.strip(), tuple(self.change_summary), self.new_skill)


class PatternAnswer(ReplyShape):
    """One pattern as a model writes it."""

    name: str
    count: int = 1
    description: Text = ""
    tasks: Words = Field(default_factory=list[str])


class Analysis(ReplyShape, ABC):
    """What an analyst answers."""

    reasoning: Text = ""
    patterns: list[PatternAnswer] = Field(default_factory=list[PatternAnswer])
    appendix_notes: Words = Field(default_factory=list[str])
    """Reminders, where they are asked for."""

    @property
    @abstractmethod
    def items(self) -> Sequence[ItemAnswer]:
        """The proposals, under whichever key they came."""


class EditAnalysis(Analysis):
    """An analysis that proposes edits."""

    edits: list[EditAnswer]

    @property
    def items(self) -> Sequence[EditAnswer]:
        """The proposals."""
        return self.edits


class ProbeMove(ReplyShape):
    """What a probe does next."""

    reasoning: Text = ""
    probe: Annotated[Literal["ask", "rerun", "conclude"], BeforeValidator(_word)]
    text: str


class SuggestionAnalysis(Analysis):
    """An analysis that makes suggestions."""

    revise_suggestions: list[SuggestionAnswer]

    @property
    def items(self) -> Sequence[SuggestionAnswer]:
        """The proposals."""
        return self.revise_suggestions


class RewriteAnalysis(Analysis):
    """An analysis that writes the body anew."""

    skill_candidates: list[RewriteAnswer]

    @property
    def items(self) -> Sequence[RewriteAnswer]:
        """The proposals."""
        return self.skill_candidates


class CallAnswer(ReplyShape):
    """Something that an explorer wants to see."""

    tool: Annotated[Literal["list", "read", "grep"], BeforeValidator(_tool)]
    file: Text = ""
    line: Annotated[int, BeforeValidator(_first)] = 1
    text: Text = ""


class Exploration(ReplyShape):
    """A turn of an explorer: what to look at next, or the conclusion."""

    reasoning: Text = ""
    calls: Annotated[list[CallAnswer], BeforeValidator(_together)] = Field(
        default_factory=list[CallAnswer]
    )
    patterns: list[PatternAnswer] = Field(default_factory=list[PatternAnswer])
    edits: list[EditAnswer] | None = None

    @property
    def concluded(self) -> bool:
        """Whether it wants to see nothing more."""
        return bool(self.edits) or (self.edits is not None and not self.calls)

    def complaint(self, *, last: bool) -> str:
        """What is wrong with the turn."""
        if self.concluded or (self.calls and not last):
            return ""
        if last:
            return 'no turns are left; conclude with "edits", an empty list if need be.'
        return 'it needs "calls", or "edits" to conclude.'

    def said(self) -> str:
        """The turn as the next ones remember it."""
        return self.model_dump_json(include={"reasoning", "calls"})


class Merge(ReplyShape, ABC):
    """What a merge answers."""

    reasoning: Text = ""

    @property
    @abstractmethod
    def items(self) -> Sequence[ItemAnswer]:
        """The proposals, under whichever key they came."""

    def complaint(self, given: ProposalSet) -> str:
        """What is wrong with the sources that the proposals name."""
        last = len(given.proposals) - 1
        for item in self.items:
            if not item.sources:
                return 'every entry needs "from": the indices of the proposals it unites.'
            if any(not 0 <= index <= last for index in item.sources):
                return f'"from" may name only proposals 0 to {last}, not {item.sources}.'
        return ""


class EditMerge(Merge):
    """A merge of edits."""

    edits: list[EditAnswer]

    @property
    def items(self) -> Sequence[EditAnswer]:
        """The proposals."""
        return self.edits


class SuggestionMerge(Merge):
    """A merge of suggestions."""

    revise_suggestions: list[SuggestionAnswer]

    @property
    def items(self) -> Sequence[SuggestionAnswer]:
        """The proposals."""
        return self.revise_suggestions


class RewriteMerge(Merge):
    """A merge of whole bodies into one."""

    skill_candidates: list[RewriteAnswer]

    @property
    def items(self) -> Sequence[RewriteAnswer]:
        """The proposals."""
        return self.skill_candidates


class CompressAnswer(ReplyShape):
    """What a question for a shorter body answers."""

    reasoning: Text = ""
    compressed_skill: str


class RateAnswer(ReplyShape):
    """What a question for the learning rate answers."""

    learning_rate: int
    reasoning: Text = ""
    confidence: Text = ""
    risk_notes: Words = Field(default_factory=list[str])


class BodyAnswer(ReplyShape):
    """What a rewrite answers: the whole body."""

    reasoning: Text = ""
    change_summary: Words = Field(default_factory=list[str])
    new_skill: str


class Ranking(ReplyShape):
    """What a ranking answers."""

    reasoning: Text = ""
    selected_indices: list[int]


class SlowUpdateAnswer(ReplyShape):
    """What a slow update answers."""

    reasoning: Text = ""
    slow_update_content: str


class MetaReflectAnswer(ReplyShape):
    """What a meta reflection answers."""

    reasoning: Text = ""
    directions: Words = Field(default_factory=list[str])
    edits: list[EditAnswer]


class MetaSkillAnswer(ReplyShape):
    """What a meta skill question answers."""

    reasoning: Text = ""
    meta_skill_content: str


class ConsolidatedNotes(ReplyShape):
    """What a question to compact reminders answers."""

    reasoning: Text = ""
    consolidated_notes: list[str]
