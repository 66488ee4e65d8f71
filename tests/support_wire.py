"""A real HTTP server on loopback that speaks chat completions, and misbehaves on request."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass
class WireServer:
    """Behaves as `script` says, one behaviour per request; the last one goes on for ever."""

    script: list[Behaviour]
    seen: list[Seen] = field(default_factory=list[Seen])
    active: int = 0
    most_active: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client goes away before its answer is complete."""
    url: str = ""
    tls: ssl.SSLContext | None = None
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> WireServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(
            Seen(
                request.path_qs,
                request.headers.copy(),
                await request.json() if request.can_read_body else {},
            )
        )
        behave = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.arrived.set()
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            return await behave(request)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise
        finally:
            self.active -= 1


def completion(text: str = "hello", **changes: object) -> dict[str, object]:
    """A whole answer as OpenAI sends it."""
    answer: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
    }
    return {**answer, **changes}


def says(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Behaviour:
    """Answer with JSON, or with bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def behave(_: web.Request) -> web.StreamResponse:
        return web.Response(
            status=status, body=data, headers=headers, content_type="application/json"
        )

    return behave


async def drops(request: web.Request) -> web.StreamResponse:
    """Close the connection without a word."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def truncates(request: web.Request) -> web.StreamResponse:
    """Promise more bytes than are sent."""
    response = web.StreamResponse()
    response.content_length = 1000
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.close()
    return response


async def stalls(request: web.Request) -> web.StreamResponse:
    """Start to answer and never finish."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"choices": [')
    await asyncio.Event().wait()
    return response


async def half_closes(request: web.Request) -> web.StreamResponse:
    """Send half of the answer and close the sending side, while still listening."""
    response = web.StreamResponse()
    response.content_length = 1000
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    sock = request.transport.get_extra_info("socket")
    sock.shutdown(socket.SHUT_WR)
    await asyncio.Event().wait()
    return response
