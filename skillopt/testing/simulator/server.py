"""The simulator as a real HTTP server on loopback, speaking chat completions."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aiohttp import web
from pydantic import BaseModel, Field, ValidationError

from skillopt.testing.model_server import LoopbackServer
from skillopt.testing.simulator.chance import unit
from skillopt.testing.simulator.optimizer import SimulatedOptimizer, stage_of
from skillopt.testing.simulator.target import SimulatedTarget
from skillopt.testing.wires import CompletionsWire, Object, ReportedTokens, Say, Trouble, model_list

MODELS = ("simulated-target", "simulated-optimizer")
Fault: TypeAlias = Literal["429", "500", "drop", "truncate"]

_HEADERS = {"Server": "skillopt-simulator (SIMULATION)", "Content-Type": "application/json"}
_PING = "Reply with OK"
_NEWS = "<turns_left>"
"""What a message holds that goes on with a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of requests that meet each kind of trouble.

    Each repetition of a request is a new draw, so a client that tries again gets through.
    """

    rate_429: float = 0.0
    rate_500: float = 0.0
    rate_drop: float = 0.0
    """The connection closes before an answer."""
    rate_truncate: float = 0.0
    """The connection closes in the middle of the answer."""
    retry_after: float = 1.0
    """Seconds that a 429 asks to wait."""
    seed: int = 0

    def strike(self, digest: str, time: int) -> Fault | None:
        """What befalls the request with this digest when it comes for the `time`-th time."""
        draw = unit(self.seed, "fault", digest, time)
        rates: dict[Fault, float] = {
            "429": self.rate_429,
            "500": self.rate_500,
            "drop": self.rate_drop,
            "truncate": self.rate_truncate,
        }
        for fault, rate in rates.items():
            if draw < rate:
                return fault
            draw -= rate
        return None


@dataclass(slots=True)
class Stats:
    """What a simulator was asked and what it answered. Only the simulator changes it."""

    requests: int = 0
    """Chat completions that arrived, whatever became of them."""
    marked: int = 0
    in_flight: int = 0
    max_concurrency: int = 0
    abandoned: int = 0
    """Requests whose client was gone before the answer."""
    replies: Counter[str] = field(default_factory=Counter[str])
    """Complete answers by what was asked for."""
    refused: Counter[str] = field(default_factory=Counter[str])
    """Answers withheld, by reason: a fault, a wrong key, a bad request."""
    completed: Counter[str] = field(default_factory=Counter[str])
    """Complete answers by digest of the request body."""

    @property
    def since_mark(self) -> int:
        """Requests that arrived after the last mark."""
        return self.requests - self.marked

    @property
    def repeated(self) -> dict[str, int]:
        """Request bodies that were answered completely more than once."""
        return {digest: count for digest, count in self.completed.items() if count > 1}

    def to_json(self) -> dict[str, object]:
        """All counters, as `GET /sim/stats` shows them."""
        return {"simulation": True, **{name: getattr(self, name) for name in _COUNTERS}}


_COUNTERS = (
    *("requests", "since_mark", "in_flight", "max_concurrency", "abandoned"),
    *("replies", "refused", "completed", "repeated"),
)


class Part(BaseModel):
    """A piece of a message; only text is read."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    role: str
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        parts = self.content or ""
        return parts if isinstance(parts, str) else "\n".join(part.text for part in parts)


class ChatRequest(BaseModel):
    """A question; fields that a simulation has no use for are accepted and ignored."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False

    def texts(self, role: str) -> list[str]:
        return [message.text for message in self.messages if message.role == role]


@dataclass(kw_only=True)
class Simulator(LoopbackServer):
    """A simulated target and optimizer behind one URL, for the length of an `async with` block."""

    seed: int = 0
    """Decides every draw of target, optimizer and latency."""
    noise: float = 0.04
    """How often the target forgets a rule that it knows."""
    fresh: bool = False
    """Whether a request that comes again gets a fresh answer, as from a real model."""
    latency: float | tuple[float, float] = 0.0
    """Seconds before each answer, or a range to draw them from."""
    faults: Faults | None = None
    key: str | None = None
    """The bearer key that requests must carry; None asks for none."""
    optimizer: SimulatedOptimizer | None = None
    """Another optimizer than the usual one."""

    def __post_init__(self) -> None:
        self._target = SimulatedTarget(self.seed, self.noise)
        self._optimizer = self.optimizer or SimulatedOptimizer(self.seed)
        self._faults = self.faults or Faults(seed=self.seed)
        self._seen: Counter[str] = Counter()
        self._stats = Stats()

    @property
    def url(self) -> str:
        """What a client takes as its base URL; `/sim/stats` and `/sim/mark` are at the `root`."""
        return f"{self.root}/v1"

    def stats(self) -> Stats:
        """The counters, live."""
        return self._stats

    def mark(self) -> None:
        """Count `since_mark` from now."""
        self._stats.marked = self._stats.requests

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.method, request.path:
            case "POST", path if path.endswith("/chat/completions"):
                return await self._complete(request)
            case "GET", path if path.endswith("/models"):
                listed = _reply(model_list(*MODELS, owner="skillopt-simulator"))
                return self._check_key(request) or listed
            case "GET", "/sim/stats":
                return _reply(self._stats.to_json())
            case "POST", "/sim/mark":
                self.mark()
                return _reply({})
            case method, path:
                return _error(404, "not_found", f"no {method} {path} here")

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        stats = self._stats
        stats.requests += 1
        stats.in_flight += 1
        stats.max_concurrency = max(stats.max_concurrency, stats.in_flight)
        try:
            # `request.read()` would refuse bodies above a size that long skills can reach.
            return self._check_key(request) or await self._respond(
                request, await request.content.read()
            )
        finally:
            stats.in_flight -= 1

    async def _respond(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        try:
            asked = ChatRequest.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            return self._refuse(400, "bad_request", f"bad request: {first['loc']}: {first['msg']}")
        if asked.stream:
            return self._refuse(400, "bad_request", "streaming is not simulated")
        if not asked.model.startswith("simulated-"):
            message = f"no model {asked.model!r}; there are {', '.join(MODELS)}"
            return self._refuse(404, "model_not_found", message)
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        self._seen[digest] += 1
        time = self._seen[digest]
        await self._wait(digest, time)
        stage, text = self._answer(asked, time - 1 if self.fresh else 0)
        reply = _reply(_completion(asked, digest, text))
        fault = self._faults.strike(digest, time)
        if fault is not None:
            return await self._misbehave(request, fault, reply)
        return await self._deliver(request, reply, stage, digest)

    def _answer(self, asked: ChatRequest, draw: int) -> tuple[str, str]:
        """What was asked for, and the answer to it."""
        system = "\n".join(asked.texts("system"))
        said, own = asked.texts("user"), asked.texts("assistant")
        last = said[-1] if said else ""
        if len(last) < 200 and _PING in last:
            return "ping", "OK"
        stage = stage_of(system)
        if stage is None:
            if own and len(said) > 1:
                return "explanation", self._target.explain(system, said[0], own[-1])
            return "target", self._target.answer(system, last, draw)
        # A message that brings nothing new asks for a broken answer once more.
        repairing = len(said) > 1 and _NEWS not in last
        user = "\n\n".join(said[:-1] if repairing else said)
        text = self._optimizer.answer(stage, system, user, repairing=repairing)
        return ("repair" if repairing else stage), text

    async def _wait(self, digest: str, time: int) -> None:
        span = self.latency if isinstance(self.latency, tuple) else (self.latency, self.latency)
        shortest, longest = span
        if longest > 0:
            share = unit(self.seed, "latency", digest, time)
            await asyncio.sleep(shortest + (longest - shortest) * share)

    async def _deliver(
        self, request: web.BaseRequest, reply: web.Response, stage: str, digest: str
    ) -> web.StreamResponse:
        """Send a whole answer, and count it only if there was somebody to take it."""
        stats = self._stats
        if request.transport is None or request.transport.is_closing():
            stats.abandoned += 1
            return reply
        # Counted first: a client that asks for the counters next must find its own answer in them.
        stats.replies[stage] += 1
        stats.completed[digest] += 1
        try:
            await reply.prepare(request)
            await reply.write_eof()
        except ConnectionError:
            stats.replies[stage] -= 1
            stats.completed[digest] -= 1
            stats.abandoned += 1
        return reply

    async def _misbehave(
        self, request: web.BaseRequest, fault: Fault, reply: web.Response
    ) -> web.StreamResponse:
        self._stats.refused[fault] += 1
        match fault:
            case "429":
                response = _error(429, "rate_limit_exceeded", "too many requests")
                response.headers["Retry-After"] = f"{self._faults.retry_after:g}"
                return response
            case "500":
                return _error(500, "server_error", "internal trouble")
            case "drop":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()
            case "truncate":
                return await _send_half(request, reply)

    def _check_key(self, request: web.BaseRequest) -> web.Response | None:
        if self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}":
            return None
        return self._refuse(401, "invalid_api_key", "wrong or missing key")

    def _refuse(self, status: int, code: str, message: str) -> web.Response:
        self._stats.refused[str(status)] += 1
        return _error(status, code, message)


def _completion(asked: ChatRequest, digest: str, text: str) -> Object:
    """The body of a successful reply; a text beyond the limit is cut and says so."""
    limit = asked.max_completion_tokens
    limit = asked.max_tokens if limit is None else limit
    cut = limit is not None and _tokens(text) > limit
    said = Say(text[: limit * 4] if limit is not None and cut else text, cut=cut)
    sent = sum(_tokens(message.text) for message in asked.messages)
    used = ReportedTokens(sent, 0, 0, _tokens(said.text), 0)
    answer = CompletionsWire(f"simulated-{digest}", asked.model, said, used).whole()
    return {**answer, "system_fingerprint": "simulation"}


def _tokens(text: str) -> int:
    """An estimate of the tokens of a text."""
    return (len(text) + 3) // 4


def _reply(body: object, status: int = 200) -> web.Response:
    data = json.dumps(body, ensure_ascii=False).encode()
    return web.Response(body=data, status=status, headers=_HEADERS)


def _error(status: int, code: str, message: str) -> web.Response:
    trouble = Trouble(status, code, code, f"[simulation] {message}")
    return _reply(CompletionsWire.error(trouble), status)


async def _send_half(request: web.BaseRequest, reply: web.Response) -> web.StreamResponse:
    """Announce a whole answer, send half of it and hang up."""
    body = reply.body if isinstance(reply.body, bytes) else b""
    response = web.StreamResponse(headers={**_HEADERS, "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
