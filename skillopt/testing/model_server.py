"""A model provider on loopback, to drive programs and backends without a network or a key.

It speaks OpenAI responses (`*/responses`), OpenAI chat completions (`*/chat/completions`) and
Anthropic messages (`*/messages`, `*/messages/count_tokens`), whole and streamed, lists its models
(`GET */models`) and records every request, also those that it does not understand.

    async with ModelServer([Call("shell", {"command": "ls"}), Say("done")]) as server:
        ...  # point a program at server.url or f"{server.url}/v1"
    assert [request.model for request in server.questions] == ["m", "m"]

A model whose name is `error-` and one of `TROUBLES` gets that error; `error-hang` gets no answer;
`error-garbage` gets bytes that are no JSON. If keys are given, any other key gets `error-401`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias, cast

from aiohttp import web
from typing_extensions import Self

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = dict[str, Json]
Event: TypeAlias = tuple[str, Json]
"""Name of a server-sent event (blank: none) and its data."""

SENT, CACHED, STORED, WRITTEN, THOUGHT = 1000, 300, 40, 50, 10
"""Tokens that an answer of `ModelServer` reports."""


@dataclass(frozen=True, slots=True)
class Tokens:
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


Act: TypeAlias = Say | Call


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


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json

    @property
    def text(self) -> str:
        """All that was said, to look for what must or must not be in it."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def model(self) -> str:
        return str(self._fields.get("model", ""))

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that were offered."""
        return tuple(_tool_names(self._fields.get("tools")))

    @property
    def key(self) -> str:
        """The key that came with it; blank: none."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        given = headers.get("x-api-key") or headers.get("authorization", "")
        return given.removeprefix("Bearer ")

    @property
    def streamed(self) -> bool:
        """Whether the answer is wanted piece by piece."""
        return self._fields.get("stream") is True

    @property
    def _fields(self) -> Object:
        return self.body if isinstance(self.body, dict) else {}


def _tool_names(tools: Json) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": {"name": str(name)}} | {"name": str(name)} | {"type": str(name)}:
                yield name
            case _:
                yield json.dumps(tool)


@dataclass(kw_only=True)
class LoopbackServer(ABC):
    """An HTTP server on loopback, for the length of an `async with` block."""

    port: int = 0
    """0 takes a free one."""
    _runner: web.ServerRunner | None = field(default=None, init=False)

    @abstractmethod
    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        server = web.Server(self.handle, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, whatever is still under way."""
        if self._runner is not None:
            await self._runner.cleanup()


@dataclass
class ModelServer(LoopbackServer):
    """Does as `script` says, one act per question; the last one goes on for ever."""

    script: Sequence[Act] = (Say("an answer"),)
    keys: frozenset[str] = frozenset()
    """Keys that open it; none: any does."""
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a model is asked."""
    _turns: Iterator[int] = field(default_factory=count)

    @property
    def url(self) -> str:
        return self.root

    @property
    def questions(self) -> list[ReceivedRequest]:
        """The requests that asked a model."""
        return [request for request in self.requests if _wire(request) is not None]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = ReceivedRequest(
            request.method, request.path_qs, dict(request.headers), await _body(request)
        )
        self.requests.append(asked)
        wire = _wire(asked)
        if wire is not None:
            self.arrived.set()
            return await self._answer(request, asked, wire)
        if asked.method == "GET" and request.path.endswith("/models"):
            return web.json_response({**model_list("m"), "models": []})
        if asked.method == "POST" and request.path.endswith("/messages/count_tokens"):
            return web.json_response({"input_tokens": SENT})
        return web.json_response({"error": {"message": "there is no such path"}}, status=404)

    async def _answer(
        self, request: web.BaseRequest, asked: ReceivedRequest, wire: type[Wire]
    ) -> web.StreamResponse:
        error = asked.model.removeprefix("error-") if asked.model.startswith("error-") else ""
        if self.keys and asked.key not in self.keys:
            error = "401"
        if error == "hang":
            await asyncio.Event().wait()
        if error == "garbage":
            return web.Response(body=b"\xff<html>", content_type="text/html")
        if error:
            trouble = TROUBLES[error]
            return web.json_response(wire.error(trouble), status=trouble.status)
        turn = next(self._turns)
        answer = wire(str(turn), asked.model, self.script[min(turn, len(self.script) - 1)])
        if not asked.streamed:
            return web.json_response(answer.whole())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for name, data in answer.events():
            text = data if isinstance(data, str) else json.dumps(data)
            head = f"event: {name}\n" if name else ""
            await response.write(f"{head}data: {text}\n\n".encode())
        await response.write_eof()
        return response


def model_list(*names: str, owner: str = "us") -> Object:
    """The body of `GET /v1/models`."""
    fixed: Object = {"object": "model", "created": 1, "owned_by": owner}
    return {"object": "list", "data": [{"id": name, **fixed} for name in names]}


async def _body(request: web.BaseRequest) -> Json:
    # `request.read()` would refuse bodies above a size that long skills can reach.
    data = await request.content.read()
    try:
        return cast("Json", json.loads(data)) if data else None
    except ValueError:
        return data.decode("utf-8", "replace")


def _wire(asked: ReceivedRequest) -> type[Wire] | None:
    path = asked.path.partition("?")[0]
    if asked.method != "POST":
        return None
    return next((wire for end, wire in _WIRES.items() if path.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class Wire(ABC):
    """One act in the words of one provider."""

    turn: str
    model: str
    act: Act
    tokens: Tokens = Tokens()

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
                part: Object = {"type": "output_text", "text": text, "annotations": []}
                yield {
                    "type": "message",
                    "id": f"msg_{self.turn}",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            case _:
                pass


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
            case Say(text) if text:
                yield {"type": "text", "text": text}
            case _:
                pass

    @property
    def _end(self) -> str:
        return self._ending("tool_use", "max_tokens", "end_turn")

    @property
    def _usage(self) -> Object:
        tokens = self.tokens
        return {
            "input_tokens": tokens.sent - tokens.cached - tokens.stored,
            "cache_read_input_tokens": tokens.cached,
            "cache_creation_input_tokens": tokens.stored,
            "output_tokens": tokens.written,
        }


def _json(arguments: Mapping[str, Json] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments))


def _named(kind: str, **data: Json) -> Event:
    return kind, {"type": kind, **data}


_WIRES: Final[Mapping[str, type[Wire]]] = {
    "/responses": ResponsesWire,
    "/chat/completions": CompletionsWire,
    "/messages": MessagesWire,
}
