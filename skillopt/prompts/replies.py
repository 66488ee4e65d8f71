"""The shapes in which a model answers, and their translation into values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from skillopt.core.edits import Append, Delete, Edit, InsertAfter, Replace
from skillopt.core.proposal import Bundle


def _word(value: object) -> object:
    """Models write `Insert After`, `add` and `remove` too."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower().replace(" ", "_").replace("-", "_")
    return {"add": "append", "insert": "insert_after", "remove": "delete"}.get(word, word)


def _text(value: object) -> object:
    return "" if value is None else value


def _listed(value: object) -> object:
    return [] if value is None else [value] if isinstance(value, str | int) else value


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
    why: Text = ""
    tasks: Words = Field(default_factory=list[str])
    """Ids of the attempts that speak for it."""
    sources: Numbers = Field(default_factory=list[int], alias="from")
    """Indices of the proposals that it was merged from."""

    def edit(self) -> Edit:
        """The value."""
        match self.op:
            case "append":
                return Append(self.content)
            case "insert_after":
                return InsertAfter(self.target, self.content)
            case "replace":
                return Replace(self.target, self.content)
            case "delete":
                return Delete(self.target)


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
