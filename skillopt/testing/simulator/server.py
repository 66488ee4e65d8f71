"""The simulator as a real HTTP server on loopback, speaking chat completions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from contextlib import AsyncExitStack
from types import TracebackType

from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from skillopt.testing.simulator.chance import unit
from skillopt.testing.simulator.faults import Fault, Faults
from skillopt.testing.simulator.optimizer import SimulatedOptimizer, stage_of
from skillopt.testing.simulator.stats import Stats
from skillopt.testing.simulator.target import SimulatedTarget

MODELS = ("simulated-target", "simulated-optimizer")


class Part(BaseModel):
    """A piece of a message; only text is read."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: str
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """The words of the message."""
        match self.content:
            case None:
                return ""
            case str(text):
                return text
            case parts:
                return "\n".join(part.text for part in parts)


class ChatRequest(BaseModel):
    """A question; fields that a simulation has no use for are accepted and ignored."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False

    @property
    def limit(self) -> int | None:
        """The most tokens that the answer may have."""
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens


def completion(request: ChatRequest, digest: str, text: str) -> bytes:
    """The body of a successful reply; a text beyond the limit is cut and says so."""
    cut = request.limit is not None and tokens(text) > request.limit
    if request.limit is not None and cut:
        text = text[: request.limit * 4]
    asked = sum(tokens(message.text) for message in request.messages)
    answered = tokens(text)
    reply = {
        "id": f"chatcmpl-simulated-{digest}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "system_fingerprint": "simulation",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "length" if cut else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
        },
    }
    return json.dumps(reply, ensure_ascii=False).encode()


def failure(message: str, code: str) -> bytes:
    """The body of a refusal."""
    error = {"message": f"[simulation] {message}", "type": code, "code": code}
    return json.dumps({"error": error}).encode()


def model_list() -> bytes:
    """The body of `GET /v1/models`."""
    listed = [
        {"id": name, "object": "model", "created": 0, "owned_by": "skillopt-simulator"}
        for name in MODELS
    ]
    return json.dumps({"object": "list", "data": listed}).encode()


def tokens(text: str) -> int:
    """An estimate of the tokens of a text."""
    return (len(text) + 3) // 4


_HEADERS = {"Server": "skillopt-simulator (SIMULATION)", "Content-Type": "application/json"}
_PING = "Reply with OK"
_NEWS = "<turns_left>"
"""What a message holds that goes on with a conversation."""


class Simulator:
    """A simulated target and optimizer behind one URL, for the length of an `async with` block.

    Args:
        seed: decides every draw of target, optimizer and latency.
        noise: how often the target forgets a rule that it knows.
        fresh: whether a request that comes again gets a fresh answer, as from a real model; else
            it gets the same one.
        latency: seconds before each answer, or a range to draw them from.
        faults: trouble on purpose.
        key: the bearer key that requests must carry; None asks for none.
        port: 0 takes a free one.
        optimizer: another optimizer than the usual one.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        noise: float = 0.04,
        fresh: bool = False,
        latency: float | tuple[float, float] = 0.0,
        faults: Faults | None = None,
        key: str | None = None,
        port: int = 0,
        optimizer: SimulatedOptimizer | None = None,
    ) -> None:
        self._seed = seed
        self._target = SimulatedTarget(seed, noise)
        self._fresh = fresh
        self._optimizer = optimizer if optimizer is not None else SimulatedOptimizer(seed)
        self._latency = latency if isinstance(latency, tuple) else (latency, latency)
        self._faults = faults if faults is not None else Faults(seed=seed)
        self._key = key
        self._port = port
        self._seen: dict[str, int] = {}
        self._stats = Stats()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Simulator:
        """Start to listen."""
        server = web.Server(self._handle, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.5)
        self._open.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, backlog=1024).start()
        self._port = int(runner.addresses[0][1])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, whatever is still under way."""
        await self._open.aclose()

    @property
    def url(self) -> str:
        """What a client takes as its base URL."""
        return f"{self.root}/v1"

    @property
    def root(self) -> str:
        """The address without the version: `/sim/stats` and `/sim/mark` live here."""
        return f"http://127.0.0.1:{self._port}"

    def stats(self) -> Stats:
        """The counters, live."""
        return self._stats

    def mark(self) -> None:
        """Count `since_mark` from now."""
        self._stats.marked = self._stats.requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.method, request.path:
            case "POST", path if path.endswith("/chat/completions"):
                return await self._complete(request)
            case "GET", path if path.endswith("/models"):
                refusal = self._check_key(request)
                return refusal if refusal is not None else _reply(model_list())
            case "GET", "/sim/stats":
                return _reply(json.dumps(self._stats.to_json()).encode())
            case "POST", "/sim/mark":
                self.mark()
                return _reply(b"{}")
            case method, path:
                return _reply(failure(f"no {method} {path} here", "not_found"), 404)

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        stats = self._stats
        stats.requests += 1
        stats.in_flight += 1
        stats.max_concurrency = max(stats.max_concurrency, stats.in_flight)
        try:
            refusal = self._check_key(request)
            if refusal is not None:
                return refusal
            # `request.read()` would refuse bodies above a size that long skills can reach.
            return await self._respond(request, await request.content.read())
        finally:
            stats.in_flight -= 1

    async def _respond(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        try:
            asked = ChatRequest.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            return self._refuse(f"bad request: {first['loc']}: {first['msg']}", "bad_request", 400)
        if asked.stream:
            return self._refuse("streaming is not simulated", "bad_request", 400)
        if not asked.model.startswith("simulated-"):
            known = ", ".join(MODELS)
            message = f"no model {asked.model!r}; there are {known}"
            return self._refuse(message, "model_not_found", 404)
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        time = self._seen[digest] = self._seen.get(digest, 0) + 1
        await self._wait(digest, time)
        stage, text = self._answer(asked, time - 1 if self._fresh else 0)
        reply = completion(asked, digest, text)
        fault = self._faults.strike(digest, time)
        if fault is not None:
            return await self._misbehave(request, fault, reply)
        return await self._deliver(request, reply, stage, digest)

    def _answer(self, asked: ChatRequest, draw: int) -> tuple[str, str]:
        """What was asked for, and the answer to it."""
        system = "\n".join(each.text for each in asked.messages if each.role == "system")
        said = [each.text for each in asked.messages if each.role == "user"]
        last = said[-1] if said else ""
        if len(last) < 200 and _PING in last:
            return "ping", "OK"
        stage = stage_of(system)
        if stage is None:
            own = [each.text for each in asked.messages if each.role == "assistant"]
            if own and len(said) > 1:
                return "explanation", self._target.explain(system, said[0], own[-1])
            return "target", self._target.answer(system, last, draw)
        # A message that brings nothing new asks for a broken answer once more.
        repairing = len(said) > 1 and _NEWS not in last
        user = "\n\n".join(said[:-1] if repairing else said)
        text = self._optimizer.answer(stage, system, user, repairing=repairing)
        return ("repair" if repairing else stage), text

    async def _wait(self, digest: str, time: int) -> None:
        shortest, longest = self._latency
        if longest > 0:
            share = unit(self._seed, "latency", digest, time)
            await asyncio.sleep(shortest + (longest - shortest) * share)

    async def _deliver(
        self, request: web.BaseRequest, reply: bytes, stage: str, digest: str
    ) -> web.StreamResponse:
        """Send a whole answer, and count it only if there was somebody to take it."""
        response = _reply(reply)
        if request.transport is None or request.transport.is_closing():
            self._stats.abandoned += 1
            return response
        # Counted first: a client that asks for the counters next must find its own answer in them.
        self._stats.replies[stage] += 1
        self._stats.completed[digest] += 1
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            self._stats.replies[stage] -= 1
            self._stats.completed[digest] -= 1
            self._stats.abandoned += 1
        return response

    async def _misbehave(
        self, request: web.BaseRequest, fault: Fault, reply: bytes
    ) -> web.StreamResponse:
        self._stats.refused[fault] += 1
        match fault:
            case "429":
                response = _reply(failure("too many requests", "rate_limit_exceeded"), 429)
                response.headers["Retry-After"] = _seconds(self._faults.retry_after)
                return response
            case "500":
                return _reply(failure("internal trouble", "server_error"), 500)
            case "drop":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()
            case "truncate":
                return await _send_half(request, reply)

    def _check_key(self, request: web.BaseRequest) -> web.Response | None:
        if self._key is None or request.headers.get("Authorization") == f"Bearer {self._key}":
            return None
        return self._refuse("wrong or missing key", "invalid_api_key", 401)

    def _refuse(self, message: str, code: str, status: int) -> web.Response:
        self._stats.refused[str(status)] += 1
        return _reply(failure(message, code), status)


def _reply(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, headers=_HEADERS)


async def _send_half(request: web.BaseRequest, reply: bytes) -> web.StreamResponse:
    """Announce a whole answer, send half of it and hang up."""
    response = web.StreamResponse(headers={**_HEADERS, "Content-Length": str(len(reply))})
    await response.prepare(request)
    await response.write(reply[: len(reply) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _seconds(value: float) -> str:
    return str(math.floor(value)) if value == math.floor(value) else str(value)
