"""Talking to a language model: one request, one reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls, tokens and money; adds up."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Input tokens that the provider took from its own prompt cache; a part of `input`."""
    dollars: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Sum field by field."""
        return Usage(
            self.calls + other.calls,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.dollars + other.dollars,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back."""

    text: str
    usage: Usage = field(default_factory=Usage)
    stop: Literal["end", "length", "tool", "filter"] = "end"


class Model(Protocol):
    """Anything that answers. Retries, limits and metering are wrappers of the same shape."""

    @property
    def fingerprint(self) -> str:
        """Everything that changes its answers: provider, model name, sampling settings."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Answer once, or raise `ModelError` or `AccessError`."""
        ...
