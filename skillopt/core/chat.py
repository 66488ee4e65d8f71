"""Requests to a language model and its replies."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]
Stop: TypeAlias = Literal["end", "length", "tool", "filter"]


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that goes with a message."""

    media_type: str
    """Such as `image/png`."""
    data: str = field(repr=False)
    """Its bytes in base64, as they are sent and kept."""

    @classmethod
    def of(cls, content: bytes, media_type: str) -> Image:
        """The picture whose file holds these bytes."""
        return cls(media_type, base64.b64encode(content).decode("ascii"))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool called."""

    id: str
    """By which the result refers to the call."""
    name: str
    arguments: str
    """JSON as the model wrote it, which may be broken."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Speaker
    text: str
    images: tuple[Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    """Of an assistant: the tools it wants called."""
    answers: str = ""
    """Of a tool: the id of the call that this is the result of."""
    memo: str = field(default="", repr=False)
    """What the provider wants to see again with this message, such as signed thinking; opaque."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that the model may ask us to do."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of an object."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls, tokens and money; adds up."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Input tokens that the provider took from its own prompt cache; a part of `input`."""
    dollars: float = 0.0
    estimated: int = 0
    """Calls whose tokens are our estimate, because the server did not count them."""
    stored: int = 0
    """Input tokens that the provider put into its prompt cache; a part of `input`. Told with the
    answer to a single call, for its price; totals of a run do not keep it."""

    def __add__(self, other: Usage) -> Usage:
        """Sum field by field."""
        return Usage(
            self.calls + other.calls,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.dollars + other.dollars,
            self.estimated + other.estimated,
            self.stored + other.stored,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What we ask. A provider that cannot honour a field says so instead of dropping it."""

    stage: str
    """What the call is for: rollout, analyst, merge, ranking, ... Never sent."""
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    """None: what the model's settings say."""
    temperature: float | None = None
    effort: str | None = None
    replicate: int = 0
    """Tells apart repeated questions that want fresh answers. Never sent."""
    empty_ok: bool = False
    """Whether a reply without any text is an answer. Never sent."""
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] | Tool = "auto"
    """Whether tools may, must not or must be called; or the one that must be."""
    schema: Mapping[str, object] | None = None
    """JSON schema that the text of the reply has to fit; its `title` names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back."""

    text: str
    usage: Usage = field(default_factory=Usage)
    stop: Stop = "end"
    calls: tuple[ToolCall, ...] = ()
    memo: str = field(default="", repr=False)

    def message(self) -> Message:
        """The reply as the next message of the conversation."""
        return Message("assistant", self.text, calls=self.calls, memo=self.memo)


class Model(Protocol):
    """Anything that answers. Retries, limits and metering are wrappers of the same shape."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes its answers: provider, model name, sampling settings."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer once, or raise `ModelError` or `AccessError`."""
        ...
