"""A model provider on loopback, to drive programs and backends without a network or a key.

It speaks OpenAI responses (`*/responses`), OpenAI chat completions (`*/chat/completions`) and
Anthropic messages (`*/messages`, `*/messages/count_tokens`), whole and streamed, lists its models
(`GET */models`) and records every request, also those that it does not understand.

    async with ModelServer([Call("shell", {"command": "ls"}), Say("done")]) as server:
        ...  # point a program at server.url or f"{server.url}/v1"
    assert [each.model for each in server.questions] == ["m", "m"]

A model whose name is `error-` and one of `TROUBLES` gets that error; `error-hang` gets no answer;
`error-garbage` gets bytes that are no JSON. If keys are given, any other key gets `error-401`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias, cast

from aiohttp import web

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = dict[str, Json]
Event: TypeAlias = tuple[str, Json]
"""Name of a server-sent event (blank: none) and its data."""

SENT, CACHED, STORED, WRITTEN, THOUGHT = 1000, 300, 40, 50, 10
"""Tokens that every answer reports: of the input, of it read from and written to a cache, of the
output, of it reasoning."""


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
        """The model that was asked."""
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


@dataclass
class ModelServer:
    """Does as `script` says, one act per question; the last one goes on for ever."""

    script: Sequence[Act] = (Say("an answer"),)
    keys: frozenset[str] = frozenset()
    """Keys that open it; none: any does."""
    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a model is asked."""
    _turns: Iterator[int] = field(default_factory=count)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> ModelServer:
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def questions(self) -> list[ReceivedRequest]:
        """The requests that asked a model."""
        return [each for each in self.requests if _wire(each) is not None]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = ReceivedRequest(
            request.method, request.path_qs, dict(request.headers), await _body(request)
        )
        self.requests.append(asked)
        wire = _wire(asked)
        if wire is not None:
            self.arrived.set()
            return await self._answer(request, asked, wire)
        if asked.method == "GET" and request.path.endswith("/models"):
            rows: list[Json] = [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}]
            return web.json_response({"object": "list", "data": rows, "models": []})
        if asked.method == "POST" and request.path.endswith("/messages/count_tokens"):
            return web.json_response({"input_tokens": SENT})
        return web.json_response({"error": {"message": "there is no such path"}}, status=404)

    async def _answer(
        self, request: web.Request, asked: ReceivedRequest, wire: type[Wire]
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
        spoken = wire(turn, asked.model, self.script[min(turn, len(self.script) - 1)])
        if not asked.streamed:
            return web.json_response(spoken.whole())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for name, data in spoken.events():
            text = data if isinstance(data, str) else json.dumps(data)
            head = f"event: {name}\n" if name else ""
            await response.write(f"{head}data: {text}\n\n".encode())
        await response.write_eof()
        return response


async def _body(request: web.Request) -> Json:
    data = await request.read()
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
class Wire:
    """One act in the words of one provider."""

    turn: int
    model: str
    act: Act

    @staticmethod
    def error(trouble: Trouble) -> Object:
        """The body of an error."""
        told: Object = {"message": trouble.message, "type": trouble.code, "code": trouble.code}
        return {"error": told}

    def whole(self) -> Object:
        """The answer in one piece."""
        raise NotImplementedError

    def events(self) -> Iterator[Event]:
        """The answer piece by piece."""
        raise NotImplementedError


class ResponsesWire(Wire):
    """OpenAI responses."""

    def whole(self) -> Object:
        """A response."""
        cut = isinstance(self.act, Say) and self.act.cut
        return {
            "id": f"resp_{self.turn}",
            "object": "response",
            "created_at": 1,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None,
            "model": self.model,
            "output": [*self._output()],
            "usage": {
                "input_tokens": SENT,
                "input_tokens_details": {"cached_tokens": CACHED},
                "output_tokens": WRITTEN,
                "output_tokens_details": {"reasoning_tokens": THOUGHT},
                "total_tokens": SENT + WRITTEN,
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
        """A completion."""
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
        match self.act:
            case Call():
                return "tool_calls"
            case Say(cut=cut):
                return "length" if cut else "stop"

    @property
    def _usage(self) -> Object:
        return {
            "prompt_tokens": SENT,
            "completion_tokens": WRITTEN,
            "total_tokens": SENT + WRITTEN,
            "prompt_tokens_details": {"cached_tokens": CACHED},
            "completion_tokens_details": {"reasoning_tokens": THOUGHT},
        }


class MessagesWire(Wire):
    """Anthropic messages."""

    @staticmethod
    def error(trouble: Trouble) -> Object:
        """The body of an error."""
        told: Object = {"type": trouble.kind, "message": trouble.message}
        return {"type": "error", "error": told}

    def whole(self) -> Object:
        """A message."""
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
        match self.act:
            case Call():
                return "tool_use"
            case Say(cut=cut):
                return "max_tokens" if cut else "end_turn"

    @property
    def _usage(self) -> Object:
        return {
            "input_tokens": SENT - CACHED - STORED,
            "cache_read_input_tokens": CACHED,
            "cache_creation_input_tokens": STORED,
            "output_tokens": WRITTEN,
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
