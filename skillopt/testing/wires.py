"""What model providers say on the wire: OpenAI responses, chat completions, Anthropic messages."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = dict[str, Json]
Event: TypeAlias = tuple[str, Json]
"""Name of a server-sent event (blank: none) and its data."""

SENT, CACHED, STORED, WRITTEN, THOUGHT = 1000, 300, 40, 50, 10
"""Tokens that an answer of `ModelServer` reports."""


@dataclass(frozen=True, slots=True)
class ReportedTokens:
    """Tokens that an answer reports."""

    sent: int = SENT
    cached: int = CACHED
    """How many of those sent were read from a cache."""
    stored: int = STORED
    """How many of those sent were written to a cache."""
    written: int = WRITTEN
    thought: int = THOUGHT
    """How many of those written are reasoning."""


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with text; blank: an answer without any."""

    text: str
    cut: bool = False
    """Whether the limit on tokens ended it."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool."""

    tool: str
    arguments: Mapping[str, Json] | str
    """Text: what a tool without a schema takes (OpenAI responses only)."""


@dataclass(frozen=True, slots=True)
class Decline:
    """Refuse to answer, as models do for reasons of safety."""

    text: str = "I cannot help with that."


Act: TypeAlias = Say | Call | Decline


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error: the status, and what kind it is on the wires of OpenAI and of Anthropic."""

    status: int
    code: str
    kind: str
    message: str


TROUBLES: Final = {
    "401": Trouble(401, "invalid_api_key", "authentication_error", "Incorrect API key provided."),
    "403": Trouble(403, "forbidden", "permission_error", "The key may not use this model."),
    "404": Trouble(404, "model_not_found", "not_found_error", "The model does not exist."),
    "429": Trouble(429, "rate_limit_exceeded", "rate_limit_error", "Rate limit reached."),
    "500": Trouble(500, "server_error", "api_error", "The server had an error."),
    "529": Trouble(529, "overloaded", "overloaded_error", "Overloaded"),
    "too-long": Trouble(
        400, "context_length_exceeded", "invalid_request_error", "prompt is too long: 9 tokens > 8"
    ),
    "quota": Trouble(
        429, "insufficient_quota", "invalid_request_error", "Your credit balance is too low."
    ),
}


def model_list(*names: str, owner: str = "us") -> Object:
    """The body of `GET /v1/models`."""
    fixed: Object = {"object": "model", "created": 1, "owned_by": owner}
    return {"object": "list", "data": [{"id": name, **fixed} for name in names]}


@dataclass(frozen=True, slots=True)
class Wire(ABC):
    """One act in the words of one provider."""

    turn: str
    model: str
    act: Act
    tokens: ReportedTokens = ReportedTokens()

    @staticmethod
    def error(trouble: Trouble) -> Object:
        error: Object = {"message": trouble.message, "type": trouble.code, "code": trouble.code}
        return {"error": error}

    @abstractmethod
    def whole(self) -> Object:
        """The answer in one piece."""

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """The answer piece by piece."""

    def _ending(self, called: str, cut: str, done: str) -> str:
        match self.act:
            case Call():
                return called
            case Say(cut=was_cut):
                return cut if was_cut else done
            case Decline():
                return done


class ResponsesWire(Wire):
    """OpenAI responses."""

    def whole(self) -> Object:
        status = self._ending("completed", "incomplete", "completed")
        cut: Object = {"reason": "max_output_tokens"}
        return {
            "id": f"resp_{self.turn}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "incomplete_details": cut if status == "incomplete" else None,
            "error": None,
            "model": self.model,
            "output": [*self._output()],
            "usage": {
                "input_tokens": self.tokens.sent,
                "input_tokens_details": {"cached_tokens": self.tokens.cached},
                "output_tokens": self.tokens.written,
                "output_tokens_details": {"reasoning_tokens": self.tokens.thought},
                "total_tokens": self.tokens.sent + self.tokens.written,
            },
        }

    def events(self) -> Iterator[Event]:
        """Each item added and done, then the response."""
        whole = self.whole()
        opened: Object = {**whole, "status": "in_progress", "output": [], "usage": None}
        parts: list[tuple[str, Object]] = [("response.created", {"response": opened})]
        for at, item in enumerate(self._output()):
            where: Object = {"output_index": at, "item": item}
            parts.append(("response.output_item.added", where))
            if isinstance(self.act, Say) and item["type"] == "message":
                delta: Object = {"item_id": item["id"], "output_index": at, "content_index": 0}
                delta["delta"] = self.act.text
                parts.append(("response.output_text.delta", delta))
            parts.append(("response.output_item.done", where))
        parts.append((f"response.{whole['status']}", {"response": whole}))
        for number, (kind, data) in enumerate(parts):
            yield kind, {"type": kind, "sequence_number": number, **data}

    def _output(self) -> Iterator[Object]:
        yield {"type": "reasoning", "id": f"rs_{self.turn}", "summary": []}
        match self.act:
            case Call(tool, arguments):
                call: Object = {"id": f"fc_{self.turn}", "call_id": f"call_{self.turn}"}
                call |= {"name": tool, "status": "completed"}
                if isinstance(arguments, str):
                    yield {"type": "custom_tool_call", **call, "input": arguments}
                else:
                    given = json.dumps(dict(arguments))
                    yield {"type": "function_call", **call, "arguments": given}
            case Say(text) if text:
                yield self._said({"type": "output_text", "text": text, "annotations": []})
            case Decline(text):
                yield self._said({"type": "refusal", "refusal": text})
            case _:
                pass

    def _said(self, part: Object) -> Object:
        said: Object = {"type": "message", "id": f"msg_{self.turn}", "role": "assistant"}
        return {**said, "status": "completed", "content": [part]}


class CompletionsWire(Wire):
    """OpenAI chat completions."""

    def whole(self) -> Object:
        choice: Object = {"index": 0, "message": self._message(), "finish_reason": self._end}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage}

    def events(self) -> Iterator[Event]:
        """One piece with all of it, then the end, the usage and the mark."""
        frame = self._frame("chat.completion.chunk")
        for delta, end in ((self._message(), None), (Object(), self._end)):
            choice: Object = {"index": 0, "delta": delta, "finish_reason": end}
            yield "", {**frame, "choices": [choice]}
        yield "", {**frame, "choices": [], "usage": self._usage}
        yield "", "[DONE]"

    def _frame(self, kind: str) -> Object:
        return {"id": f"c_{self.turn}", "object": kind, "created": 1, "model": self.model}

    def _message(self) -> Object:
        match self.act:
            case Say(text):
                return {"role": "assistant", "content": text}
            case Decline(text):
                return {"role": "assistant", "content": None, "refusal": text}
            case Call(tool, arguments):
                called: Object = {"name": tool, "arguments": _json(arguments)}
                call: Object = {"index": 0, "id": f"call_{self.turn}", "type": "function"}
                call["function"] = called
                return {"role": "assistant", "content": None, "tool_calls": [call]}

    @property
    def _end(self) -> str:
        return self._ending("tool_calls", "length", "stop")

    @property
    def _usage(self) -> Object:
        tokens = self.tokens
        return {
            "prompt_tokens": tokens.sent,
            "completion_tokens": tokens.written,
            "total_tokens": tokens.sent + tokens.written,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
            "completion_tokens_details": {"reasoning_tokens": tokens.thought},
        }


class MessagesWire(Wire):
    """Anthropic messages."""

    @staticmethod
    def error(trouble: Trouble) -> Object:
        error: Object = {"type": trouble.kind, "message": trouble.message}
        return {"type": "error", "error": error}

    def whole(self) -> Object:
        return {
            "id": f"msg_{self.turn}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [*self._content()],
            "stop_reason": self._end,
            "stop_sequence": None,
            "usage": self._usage,
        }

    def events(self) -> Iterator[Event]:
        """The start, the blocks, the reason to stop, the end."""
        opened: Object = {**self.whole(), "content": [], "stop_reason": None}
        yield _named("message_start", message=opened)
        for at, block in enumerate(self._content()):
            empty: Object = {**block, "input": {}} if "input" in block else {**block, "text": ""}
            yield _named("content_block_start", index=at, content_block=empty)
            delta: Object = (
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                if "input" in block
                else {"type": "text_delta", "text": block["text"]}
            )
            yield _named("content_block_delta", index=at, delta=delta)
            yield _named("content_block_stop", index=at)
        ended: Object = {"stop_reason": self._end, "stop_sequence": None}
        yield _named("message_delta", delta=ended, usage=self._usage)
        yield _named("message_stop")

    def _content(self) -> Iterator[Object]:
        match self.act:
            case Call(tool, arguments):
                block: Object = {"type": "tool_use", "id": f"toolu_{self.turn}", "name": tool}
                yield {**block, "input": cast("Json", json.loads(_json(arguments)))}
            case Say(text) | Decline(text) if text:
                yield {"type": "text", "text": text}
            case _:
                pass

    @property
    def _end(self) -> str:
        declined = isinstance(self.act, Decline)
        return "refusal" if declined else self._ending("tool_use", "max_tokens", "end_turn")

    @property
    def _usage(self) -> Object:
        tokens = self.tokens
        return {
            "input_tokens": tokens.sent - tokens.cached - tokens.stored,
            "cache_read_input_tokens": tokens.cached,
            "cache_creation_input_tokens": tokens.stored,
            "output_tokens": tokens.written,
        }


class GeminiWire(Wire):
    """Google's generateContent."""

    @staticmethod
    def error(trouble: Trouble) -> Object:
        error: Object = {"code": trouble.status, "message": trouble.message}
        return {"error": {**error, "status": trouble.code.upper()}}

    def whole(self) -> Object:
        match self.act:
            case Call(tool, arguments):
                given = cast("Json", json.loads(_json(arguments)))
                parts: list[Json] = [{"functionCall": {"name": tool, "args": given}}]
            case Say(text) | Decline(text):
                parts = [{"text": text}]
        content: Object = {"role": "model", "parts": parts}
        end = (
            "SAFETY"
            if isinstance(self.act, Decline)
            else self._ending("STOP", "MAX_TOKENS", "STOP")
        )
        tokens = self.tokens
        return {
            "candidates": [{"content": content, "finishReason": end, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": tokens.sent,
                "cachedContentTokenCount": tokens.cached,
                "candidatesTokenCount": tokens.written - tokens.thought,
                "thoughtsTokenCount": tokens.thought,
                "totalTokenCount": tokens.sent + tokens.written,
            },
            "modelVersion": self.model,
            "responseId": f"g_{self.turn}",
        }

    def events(self) -> Iterator[Event]:
        yield "", self.whole()


def _json(arguments: Mapping[str, Json] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments))


def _named(kind: str, **data: Json) -> Event:
    return kind, {"type": kind, **data}
