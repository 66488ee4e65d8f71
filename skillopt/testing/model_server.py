"""A model provider on loopback, to drive programs and backends without a network or a key.

It speaks OpenAI responses (`*/responses`), OpenAI chat completions (`*/chat/completions`),
Anthropic messages (`*/messages`, `*/messages/count_tokens`) and Google's `*:generateContent`,
`*:streamGenerateContent` and `*:countTokens`, whole and streamed, lists its models (`GET */models`)
and records every request, also those that it does not understand.

    async with ModelServer([Call("shell", {"command": "ls"}), Say("done")]) as server:
        ...  # point a program at server.url or f"{server.url}/v1"
    assert [request.model for request in server.questions] == ["m", "m"]

A model whose name is `error-` and one of `TROUBLES` gets that error; `error-hang` gets no answer;
`error-garbage` gets bytes that are no JSON. If keys are given, any other key gets `error-401`.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, cast

from aiohttp import web
from typing_extensions import Self

from skillopt.testing.wires import (
    SENT,
    TROUBLES,
    Act,
    CompletionsWire,
    GeminiWire,
    Json,
    MessagesWire,
    Object,
    ResponsesWire,
    Say,
    Wire,
    model_list,
)

_NAMED: Final = re.compile(r"/models/([^/:?]+):")


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
        named = _NAMED.search(self.path)
        return named[1] if named else str(self._fields.get("model", ""))

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that were offered."""
        return tuple(_tool_names(self._fields.get("tools")))

    @property
    def key(self) -> str:
        """The key that came with it; blank: none."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        own = headers.get("x-api-key") or headers.get("x-goog-api-key")
        given = own or headers.get("authorization", "")
        return given.removeprefix("Bearer ")

    @property
    def streamed(self) -> bool:
        """Whether the answer is wanted piece by piece."""
        return self._fields.get("stream") is True or ":streamGenerateContent" in self.path

    @property
    def _fields(self) -> Object:
        return self.body if isinstance(self.body, dict) else {}


def _tool_names(tools: Json) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": {"name": str(name)}} | {"name": str(name)} | {"type": str(name)}:
                yield name
            case {"functionDeclarations": list(declared)}:
                yield from _tool_names(declared)
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

    script: Sequence[Act] | Callable[[ReceivedRequest], Act] = (Say("an answer"),)
    """A function is asked what to do."""
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
        if asked.method == "POST" and request.path.endswith(":countTokens"):
            return web.json_response({"totalTokens": SENT})
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
        script = self.script
        act = script(asked) if callable(script) else script[min(turn, len(script) - 1)]
        answer = wire(str(turn), asked.model, act)
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


_WIRES: Final[Mapping[str, type[Wire]]] = {
    "/responses": ResponsesWire,
    "/chat/completions": CompletionsWire,
    "/messages": MessagesWire,
    ":generateContent": GeminiWire,
    ":streamGenerateContent": GeminiWire,
}
