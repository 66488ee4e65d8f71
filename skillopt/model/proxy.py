"""Lets a program ask a model over a unix socket. The key and the budget stay in this process."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aiohttp import web

from skillopt.core.chat import Usage
from skillopt.core.intake import BODY_BYTES, Json, read_json
from skillopt.errors import BudgetSpent, SkilloptError
from skillopt.model.budget import Budget
from skillopt.model.prices import Tariff
from skillopt.model.provider import HttpAnswer
from skillopt.model.remote import Remote
from skillopt.model.wire import usage_apart, usage_of

_ASKS: Final = ("/chat/completions", "/responses", "/messages")
_FREE: Final = ("/messages/count_tokens", "/models")
"""What may be asked besides, and costs nothing."""
_PER_CALL: Final = 64
_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class ProxiedCall:
    """What a program asked, and what it was answered."""

    path: str
    request: bytes
    status: int
    answer: bytes
    usage: Usage


@dataclass(slots=True, kw_only=True)
class ModelProxy:
    """Forwards requests to the server of a model, and pays for them.

    Whatever key and model a program names, it gets those of `remote`. Its worst case is set aside
    before a call is sent, so that no limit is exceeded; what it took is paid when it is answered.
    """

    remote: Remote
    model: str
    budget: Budget
    price: Tariff | None = None
    max_tokens: int
    """The longest answer where a request does not say."""
    role: str = "target"
    stage: str = "rollout"
    calls: list[ProxiedCall] = field(default_factory=list[ProxiedCall])
    ended: BudgetSpent | None = None
    """The limit that was reached."""

    @asynccontextmanager
    async def serve(self, *, owner: int | None = None) -> AsyncGenerator[Path, None]:
        """Listen at a path that only `owner` can reach, or else only we ourselves.

        If a limit was reached meanwhile, `BudgetSpent` is raised at the end.
        """
        runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        with TemporaryDirectory(prefix="skillopt-") as folder:
            path = Path(folder) / "model"
            await runner.setup()
            try:
                await web.UnixSite(runner, str(path)).start()
                if owner is not None:
                    os.chown(path, owner, -1)
                    os.chown(folder, owner, -1)
                yield path
                if self.ended is not None:
                    raise self.ended
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        end = next((each for each in (*_FREE, *_ASKS) if request.path.endswith(each)), "")
        if not end or request.method not in ("GET", "POST"):
            return _error(404, "there is no such path")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > BODY_BYTES:
                return _error(413, "the request is too large")
        try:
            if request.method == "GET" or end in _FREE:
                answer = await self._send(end, bytes(body) if request.method == "POST" else None)
            else:
                answer = await self._ask(end, bytes(body))
        except BudgetSpent as error:
            self.ended = error
            return _error(402, str(error))
        except SkilloptError as error:
            return _error(502, str(error))
        except ValueError:
            return _error(400, "the request is not a JSON object")
        kind = answer.headers.get("Content-Type", "application/json")
        return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": kind})

    async def _ask(self, end: str, body: bytes) -> HttpAnswer:
        fields = _object(body)
        fields["model"] = self.model
        if end == "/chat/completions" and fields.get("stream") is True:
            fields["stream_options"] = {"include_usage": True}
        sent = json.dumps(fields).encode()
        worst = Usage(1, len(sent) + _PER_CALL, self._longest(fields))
        if self.price is not None:
            worst = replace(worst, dollars=self.price.most(worst))
        async with self.budget.hold(worst, self.role, self.stage):
            return self._recorded(end, sent, await self._send(end, sent))

    def _recorded(self, end: str, sent: bytes, answer: HttpAnswer) -> HttpAnswer:
        """The answer, once what it took is on disk; one of an error takes nothing."""
        usage = Usage()
        if answer.status == 200:
            usage = _usage(end, answer.body) or _estimate(sent, answer.body)
            if self.price is not None:
                usage = replace(usage, dollars=self.price.cost(usage))
            self.budget.record(usage, role=self.role, stage=self.stage)
        else:
            hide = self.remote.caller.credentials.hide
            answer = answer._replace(body=hide(answer.body.decode(errors="replace")).encode())
        self.calls.append(ProxiedCall(end, sent, answer.status, answer.body, usage))
        return answer

    def _longest(self, fields: Mapping[str, Json]) -> int:
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
        limits = [limit for name in names if isinstance(limit := fields.get(name), int)]
        choices = fields.get("n")
        return max(limits, default=self.max_tokens) * (choices if isinstance(choices, int) else 1)

    async def _send(self, end: str, body: bytes | None) -> HttpAnswer:
        base = self.remote.url
        for known in _ASKS:
            base = base.removesuffix(known)
        headers = {**self.remote.headers, **await self.remote.caller.credentials.headers()}
        timeout = self.remote.timeout
        return await self.remote.http.send(base + end, headers=headers, timeout=timeout, body=body)


def _object(body: bytes) -> dict[str, Json]:
    """The fields of a request; `ValueError` if it is no JSON object."""
    match read_json(body):
        case dict() as fields:
            return fields
        case other:
            raise ValueError(f"not an object: {type(other).__name__}")


def _estimate(sent: bytes, answer: bytes) -> Usage:
    given, made = len(sent) // _BYTES_PER_TOKEN, len(answer) // _BYTES_PER_TOKEN
    return Usage(1, given, made, estimated=1)


def _usage(end: str, answer: bytes) -> Usage | None:
    """What the server counted, in an answer or in the events of one; None: nothing."""
    counts: dict[str, Json] = {}
    for event in _events(answer):
        for part in (event, event.get("response"), event.get("message")):
            if isinstance(part, dict) and isinstance(found := part.get("usage"), dict):
                counts |= {name: count for name, count in found.items() if count is not None}
    match end:
        case "/chat/completions":
            usage = usage_of(counts, "prompt_tokens", "completion_tokens")
        case "/responses":
            usage = usage_of(counts, "input_tokens", "output_tokens")
        case _:
            usage = usage_apart(counts)
    return usage if usage is not None and (usage.input or usage.output) else None


def _events(answer: bytes) -> Iterator[dict[str, Json]]:
    lines = answer.splitlines() if answer.startswith((b"event:", b"data:")) else [answer]
    for line in lines:
        try:
            event = read_json(line.removeprefix(b"data:"))
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _error(status: int, message: str) -> web.Response:
    body = {"type": "error", "error": {"type": "proxy_error", "message": message}}
    return web.json_response(body, status=status)
