"""The shapes in which a model answers, and their translation into values."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from skillopt.core.edits import Append, Delete, Edit, InsertAfter, Replace
from skillopt.core.proposal import Bundle
from skillopt.core.references import MAIN


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


class Answer(BaseModel):
    """Base of all answers: unknown extra fields are ignored, numbers may stand for text."""

    model_config = ConfigDict(coerce_numbers_to_str=True, populate_by_name=True)


class EditAnswer(Answer):
    """One edit as a model writes it."""

    op: Annotated[Literal["append", "insert_after", "replace", "delete"], BeforeValidator(_word)]
    target: Text = ""
    content: Text = ""
    file: Annotated[str, BeforeValidator(_file)] = MAIN
    """Which file of a package it changes."""
    why: Text = ""
    tasks: Words = Field(default_factory=list[str])
    """Ids of the attempts that speak for it."""
    sources: Numbers = Field(default_factory=list[int], alias="from")
    """Indices of the proposals that it was merged from."""

    def edit(self) -> Edit:
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


class PatternAnswer(Answer):
    """One pattern as a model writes it."""

    name: str
    count: int = 1
    description: Text = ""
    tasks: Words = Field(default_factory=list[str])


class Analysis(Answer):
    """What an analyst answers."""

    reasoning: Text = ""
    patterns: list[PatternAnswer] = Field(default_factory=list[PatternAnswer])
    edits: list[EditAnswer]
    appendix_notes: Words = Field(default_factory=list[str])
    """Reminders, where they are asked for."""


class ProbeMove(Answer):
    """What a probe does next."""

    reasoning: Text = ""
    probe: Annotated[Literal["ask", "rerun", "conclude"], BeforeValidator(_word)]
    text: str


class CallAnswer(Answer):
    """Something that an explorer wants to see."""

    tool: Annotated[Literal["list", "read", "grep"], BeforeValidator(_tool)]
    file: Text = ""
    line: Annotated[int, BeforeValidator(_first)] = 1
    text: Text = ""


class Exploration(Answer):
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


class Merge(Answer):
    """What a merge answers."""

    reasoning: Text = ""
    edits: list[EditAnswer]

    def complaint(self, given: Bundle) -> str:
        """What is wrong with the sources that the edits name."""
        last = len(given.proposals) - 1
        for edit in self.edits:
            if not edit.sources:
                return 'every edit needs "from": the indices of the proposals it unites.'
            if any(not 0 <= index <= last for index in edit.sources):
                return f'"from" may name only proposals 0 to {last}, not {edit.sources}.'
        return ""


class Ranking(Answer):
    """What a ranking answers."""

    reasoning: Text = ""
    selected_indices: list[int]


class SlowUpdateAnswer(Answer):
    """What a slow update answers."""

    reasoning: Text = ""
    slow_update_content: str


class MetaReflectAnswer(Answer):
    """What a meta reflection answers."""

    reasoning: Text = ""
    directions: Words = Field(default_factory=list[str])
    edits: list[EditAnswer]


class MetaSkillAnswer(Answer):
    """What a meta skill question answers."""

    reasoning: Text = ""
    meta_skill_content: str


class ConsolidatedNotes(Answer):
    """What a question to compact reminders answers."""

    reasoning: Text = ""
    consolidated_notes: list[str]
