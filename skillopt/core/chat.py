"""Requests to a language model and its replies."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]
Detail: TypeAlias = Literal["", "low", "high"]
Stop: TypeAlias = Literal["end", "length", "tool", "filter"]


@dataclass(frozen=True, slots=True)
class Image:
    media_type: str
    """Such as `image/png`."""
    data: str = field(repr=False)
    """Its bytes in base64."""
    detail: Detail = ""
    """How closely the model looks at it, where a provider lets one choose; empty: it chooses."""

    @classmethod
    def of(cls, content: bytes, media_type: str, detail: Detail = "") -> Image:
        return cls(media_type, base64.b64encode(content).decode("ascii"), detail)


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    """The id by which the result refers to the call."""
    name: str
    arguments: str
    """JSON as the model wrote it; may be invalid."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Speaker
    text: str
    images: tuple[Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    """Assistant messages: the requested tool calls."""
    answers: str = ""
    """Tool messages: the id of the call that this is the result of."""
    memo: str = field(default="", repr=False)
    """Data that the provider needs back with this message, such as signed thinking."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of an object."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls, tokens and dollars; can be added."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Input tokens that were read from the provider's prompt cache; a part of `input`."""
    dollars: float = 0.0
    estimated: int = 0
    """Calls whose tokens were estimated, because the server did not report them."""
    stored: int = 0
    """Input tokens that the provider put into its prompt cache; a part of `input`. Told with the
    answer to a single call, for its price; totals of a run do not keep it."""

    def __add__(self, other: Usage) -> Usage:
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
    """A request. A backend that does not support a field raises an error; it never ignores it."""

    stage: str
    """What the call is for: rollout, analyst, merge, ranking, ... Never sent."""
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    """None: what the model's settings say."""
    temperature: float | None = None
    effort: str | None = None
    replicate: int = 0
    """Distinguishes repeated requests that need new answers. Never sent."""
    empty_ok: bool = False
    """Whether an empty reply is an answer. Never sent."""
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] | Tool = "auto"
    """Whether tools may, must not or must be called; or the tool that must be called."""
    schema: Mapping[str, object] | None = None
    """JSON schema for the text of the reply; its `title` is its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    text: str
    usage: Usage = field(default_factory=Usage)
    stop: Stop = "end"
    calls: tuple[ToolCall, ...] = ()
    memo: str = field(default="", repr=False)

    def message(self) -> Message:
        """The reply as the next message of the conversation."""
        return Message("assistant", self.text, calls=self.calls, memo=self.memo)


class Model(Protocol):
    """A language model. Retries, limits and caching are wrappers with the same interface."""

    @property
    def fingerprint(self) -> str:
        """Everything that affects its answers: backend, model name, sampling settings."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Send one request; raises `ModelError` or `AccessError`."""
        ...
