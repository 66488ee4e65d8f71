"""Asks a model a question with a typed answer, a second time if the answer is unusable."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar, cast

from pydantic import BaseModel, ValidationError

from skillopt.core.chat import Message, Model, Request, Speaker
from skillopt.core.intake import EDIT_CHARS, REPLY_CHARS
from skillopt.core.sink import EventSink, Phase
from skillopt.errors import Refused, Unusable
from skillopt.prompts.digest import Digest
from skillopt.prompts.jsonish import read_object
from skillopt.prompts.library import Library

T = TypeVar("T", bound=BaseModel)
_SHORT = 160
"""Tokens of a plain text: a small model that babbles is cut off."""
_RULED = re.compile(r"^---$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQuestion(Generic[T]):
    stage: str
    """The purpose of the call, for cost reports."""
    sections: Sequence[str]
    shape: type[T]
    prompt: str = ""
    """Name of the prompt; that of the stage if none is given."""
    check: Callable[[T], str] | None = None
    """Describes what is wrong with an answer of the right format; empty if nothing is."""
    said: Sequence[Message] = ()
    """The conversation after the first message, if the question continues one."""
    also: Sequence[str] = ()
    """Names of further prompts to append."""
    max_tokens: int | None = None
    """None: the setting of the model."""
    effort: str | None = None
    """None: the setting of the model."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks a model: the model, the prompts, and the sink for progress."""

    model: Model
    prompts: Library
    sink: EventSink
    digest: Digest = field(default_factory=Digest)
    """Limits for the attempts that a prompt shows."""

    async def say(
        self, stage: str, prompt: str, section: str, *, temperature: float, replicate: int
    ) -> str:
        """Ask for plain text; each replicate gets a new answer.

        In the prompt, lines of `---` separate the instructions from example turns of user and
        assistant. A small model copies an example from its instructions, but follows one that is
        an earlier turn.
        """
        told, *turns = (part.strip() for part in _RULED.split(self.prompts.text(prompt)))
        speakers: list[Speaker] = ["user", "assistant"]
        shown = [Message(speakers[n % 2], text) for n, text in enumerate(turns)]
        request = Request(
            stage=stage,
            messages=(Message("system", told), *shown, Message("user", section)),
            max_tokens=_SHORT,
            temperature=temperature,
            replicate=replicate,
        )
        try:
            return (await self.model.complete(request)).text.strip()
        except Refused as error:
            raise Unusable(str(error)) from error
        except Unusable:
            # A model that reasons may need all of it before the first word.
            return (await self.model.complete(replace(request, max_tokens=None))).text.strip()

    async def answer(self, question: PromptQuestion[T], phase: Phase | str) -> T | Unusable:
        """Ask and report progress, in a phase of its own if one is named; an error is returned."""
        if isinstance(phase, str):
            with self.sink.phase(phase, 1) as opened:
                return await self.answer(question, opened)
        try:
            answer = await self.ask(question)
        except Unusable as error:
            phase.tick("failed")
            return error
        phase.tick()
        return answer

    async def ask(self, question: PromptQuestion[T]) -> T:
        """Ask; if the answer is unusable, ask once more with the reason, then raise `Unusable`."""
        named = (question.prompt or question.stage, *question.also)
        asked = (
            Message("system", "\n\n".join(map(self.prompts.text, named))),
            Message("user", "\n\n".join(question.sections)),
            *question.said,
        )
        text = await _complete(self.model, question, asked)
        answer = _read(text, question)
        if not isinstance(answer, str):
            return answer
        repair = (
            f"That answer cannot be used: {answer}\n"
            "Send the whole answer again as one valid JSON object of the form described, "
            "and nothing else."
        )
        again = (*asked, Message("assistant", text), Message("user", repair))
        answer = _read(await _complete(self.model, question, again), question)
        if isinstance(answer, str):
            raise Unusable(f"no usable answer to the question {question.stage!r}: {answer}")
        return answer


async def _complete(
    model: Model, question: PromptQuestion[T], messages: tuple[Message, ...]
) -> str:
    request = Request(
        stage=question.stage,
        messages=messages,
        max_tokens=question.max_tokens,
        effort=question.effort,
    )
    try:
        return (await model.complete(request)).text
    except Refused as error:
        # Too long, filtered: asking again changes nothing.
        raise Unusable(str(error)) from error


def _read(text: str, question: PromptQuestion[T]) -> T | str:
    """The answer, or a description of what is wrong with it."""
    fields = question.shape.model_fields
    keys = {name: field.alias or name for name, field in fields.items()}
    required = {keys[name] for name, field in fields.items() if field.is_required()}
    found = read_object(text[:REPLY_CHARS], required)
    if found is None:
        listed = ", ".join(f'"{name}"' for name in sorted(required))
        return f"it holds no JSON object with {listed}."
    try:
        answer = question.shape.model_validate(found)
    except ValidationError as errors:
        return "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors.errors()[:5]
        )
    if too_long := [keys[name] for name, value in answer if _length(value) > EDIT_CHARS]:
        return f"{', '.join(too_long)}: longer than {EDIT_CHARS} characters."
    complaint = question.check(answer) if question.check else ""
    return complaint or answer


def _length(value: object) -> int:
    match value:
        case str():
            return len(value)
        case BaseModel():
            return max((_length(field) for _, field in value), default=0)
        case list() | tuple():
            return max(map(_length, cast("Sequence[object]", value)), default=0)
        case _:
            return 0
