"""What the formats of all APIs share: abilities, usage, estimates, and how a reply is put together.

A wire format is one module per API: how a request is written and how an answer is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal, Protocol, TypeAlias

from skillopt.core.chat import Message, Reply, Request, Stop, ToolCall, Usage
from skillopt.core.intake import Json, read_json
from skillopt.errors import NoTools, Refused

Ability: TypeAlias = Literal["tools", "images", "schema"]
Piece: TypeAlias = "str | ToolCall | dict[str, Json] | None"
"""Of an answer: words, a call of a tool, or a thought that goes back with the message."""
_LETTERS_PER_TOKEN = 4
_PER_IMAGE = 1000
"""What a picture of common size takes."""


class MalformedReply(Exception):
    """An answer without the format of the API; will be retried."""


class ErrorReply(Exception):
    """An answer with HTTP status 200 whose body contains an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status that corresponds to the error."""


class WireFormat(Protocol):
    """The format of an API: how requests are written and answers are read."""

    def body(self, request: Request) -> dict[str, object]:
        """The JSON body of a request; `Refused` if the API does not support something in it."""
        ...

    def reply(self, data: Json) -> Reply:
        """Read an answer; without token counts if there are none."""
        ...


def check_abilities(request: Request, who: str, *able: Ability) -> None:
    """Refuse a request that asks for more than text and these abilities."""
    asked: dict[Ability, bool] = {
        "tools": bool(request.tools),
        "images": any(message.images for message in request.messages),
        "schema": request.schema is not None,
    }
    for ability, wanted in asked.items():
        if wanted and ability not in able:
            words = "a schema for the reply" if ability == "schema" else ability
            kind = NoTools if ability == "tools" else Refused
            raise kind(f"{who} cannot handle {words}; choose another backend for this role")


def assemble(pieces: Iterable[Piece], stop: Stop, usage: Usage, api: str = "") -> Reply:
    """The reply that these pieces are. Thoughts are kept for this API while tools are called."""
    text: list[str] = []
    calls: list[ToolCall] = []
    thoughts: list[Json] = []
    for piece in pieces:
        match piece:
            case str():
                text.append(piece)
            case ToolCall():
                calls.append(piece)
            case dict():
                thoughts.append(piece)
            case None:
                pass
    memo = json.dumps({"api": api, "pieces": thoughts}) if calls and thoughts else ""
    return Reply(
        text="".join(text),
        usage=usage,
        stop="tool" if calls else stop,
        calls=tuple(calls),
        memo=memo,
    )


def recall(api: str, memo: str) -> list[dict[str, Json]]:
    """The thoughts that a memo holds, if this API wrote it."""
    if not memo:
        return []
    match read_json(memo):
        case {"api": str(written), "pieces": [*pieces]} if written == api:
            return [piece for piece in pieces if isinstance(piece, dict)]
        case _:
            return []


def count(value: Json) -> int:
    """A number of tokens or calls; 0 where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def usage_of(counts: Json, sent: str, written: str) -> Usage:
    """Tokens by the names that OpenAI gives them, as far as the server counts them."""
    if not isinstance(counts, dict):
        return Usage(1)
    match counts.get(sent), counts.get(written), counts.get(f"{sent}_details"):
        case int(given), int(made), {"cached_tokens": int(cached)}:
            return Usage(1, given, made, cached)
        case int(given), int(made), _:
            return Usage(1, given, made)
        case _:
            return Usage(1)


ANTHROPIC: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
"""Names of new, produced, read and stored tokens."""


def usage_apart(counts: Json, names: Sequence[str] = ANTHROPIC) -> Usage | None:
    """Tokens as Anthropic counts them: read from the cache and written to it apart from the rest.

    None: they are not counted.
    """
    if not isinstance(counts, dict):
        return None
    new, made, read, stored = (counts.get(name) for name in names)
    if not isinstance(new, int) or not isinstance(made, int):
        return None
    kept = count(stored)
    return Usage(1, new + count(read) + kept, made, count(read), stored=kept)


def estimate_input(request: Request) -> int:
    """Tokens sent, roughly: known before the call, unlike those that come back."""
    return sum(map(_tokens, request.messages))


def counted(request: Request, reply: Reply) -> Reply:
    """The reply; where its server did not count, with an estimate that is marked as one."""
    if reply.usage.input or reply.usage.output:
        return reply
    letters = len(reply.text) + _letters(reply.calls)
    output = -(-letters // _LETTERS_PER_TOKEN)
    return replace(reply, usage=Usage(1, estimate_input(request), output, estimated=1))


def _tokens(message: Message) -> int:
    letters = len(message.text) + _letters(message.calls)
    return letters // _LETTERS_PER_TOKEN + _PER_IMAGE * len(message.images)


def _letters(calls: Iterable[ToolCall]) -> int:
    return sum(len(call.arguments) for call in calls)
