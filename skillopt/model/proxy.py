"""Lets a program ask a model over a unix socket. The key and the budget stay in this process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

from aiohttp import web

from skillopt.core.chat import Usage
from skillopt.core.intake import BODY_BYTES
from skillopt.core.temporary import swept
from skillopt.errors import AccessError, BudgetSpent, ModelError, Refused, SkilloptError
from skillopt.model.budget import Budget
from skillopt.model.completions import Completions
from skillopt.model.errors import classify
from skillopt.model.prices import Tariff
from skillopt.model.provider import HttpAnswer
from skillopt.model.proxied import (
    BYTES_PER_TOKEN,
    ENDS,
    FREE,
    Asked,
    CheckedRequest,
    UnfitRequest,
    broken_off,
    check_request,
    counted_usage,
    estimated_usage,
    read_answer,
)
from skillopt.model.rate_limits import Endpoint
from skillopt.model.remote import Remote
from skillopt.model.wrappers import RetryPolicy

_GIVEN_UP = 400
"""What a program is answered when we have given up: no program asks again after this status."""


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
    A call that fails for a reason that may pass is repeated here, in the same way for every
    program; an answer that breaks off is not shown.
    """

    remote: Remote
    model: str
    budget: Budget
    endpoint: Endpoint
    """The limits of the server, shared with all others who ask it."""
    hide: Callable[[str], str] = str
    """Takes the secrets of the run out of a text."""
    price: Tariff | None = None
    max_tokens: int
    """The longest answer; a request may ask for a shorter one."""
    retries: RetryPolicy = field(default_factory=lambda: RetryPolicy(tries=1))
    web_search: bool = False
    """Whether the server may search the web for the program."""
    role: str = "target"
    stage: str = "rollout"
    path: Path = field(default_factory=Path)
    """The socket, while it is served."""
    calls: list[ProxiedCall] = field(default_factory=list[ProxiedCall])
    asking: int = 0
    """Calls under way."""
    ended: BudgetSpent | AccessError | None = None
    """Why no further call can be made."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set as soon as that is so."""
    trouble: ModelError | None = None
    """Why the last call failed; None: it was answered."""

    @property
    def usage(self) -> Usage:
        """What all calls took together."""
        return sum((call.usage for call in self.calls), Usage())

    def heard(self, words: str) -> bool:
        """Whether a request that was sent holds these words."""
        return any(words.encode() in call.request for call in self.calls)

    @asynccontextmanager
    async def serve(self, *, owner: int | None = None) -> AsyncGenerator[Path, None]:
        """Listen at a path that only `owner` can reach, or else only we ourselves.

        If no further call can be made, the reason is raised at the end.
        """
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        with swept("model") as prefix, TemporaryDirectory(prefix=prefix) as folder:
            self.path = path = Path(folder) / "model"
            await runner.setup()
            try:
                await _whole(web.UnixSite(runner, str(path)).start())
                if owner is not None:
                    os.chown(path, owner, -1)
                    os.chown(folder, owner, -1)
                yield path
                if self.ended is not None:
                    raise self.ended
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        ends: list[Asked] = [each for each in ENDS if request.path.endswith(each)]
        if not ends or request.method != ("GET" if ends[0] == "/models" else "POST"):
            return _error(404, "there is no such path")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > BODY_BYTES:
                return _error(413, "the request is too large")
        self.asking += 1
        try:
            answer = await self._answer(ends[0], bytes(body))
        except UnfitRequest as error:
            return _error(error.status, str(error))
        except (BudgetSpent, AccessError) as error:
            self.ended = error
            self.over.set()
            status = 402 if isinstance(error, BudgetSpent) else _GIVEN_UP
            return _error(status, self._without_secrets(str(error)))
        except SkilloptError as error:
            return _error(_GIVEN_UP, self._without_secrets(str(error)))
        finally:
            self.asking -= 1
        kind = answer.headers.get("Content-Type", "application/json")
        return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": kind})

    async def _answer(self, asked: Asked, body: bytes) -> HttpAnswer:
        if self.ended is not None:
            raise self.ended
        if asked == "/models":
            return await self._free(asked)
        wire = self.remote.wire
        limit = wire.limit_field if isinstance(wire, Completions) else "max_completion_tokens"
        request = check_request(
            asked,
            body,
            self.model,
            max_tokens=self.max_tokens,
            chat_limit=limit,
            web_search=self.web_search,
        )
        if asked in FREE:
            return await self._free(asked, request.body)
        return await self._ask(asked, request)

    async def _free(self, asked: Asked, body: bytes | None = None) -> HttpAnswer:
        """The answer to what costs nothing."""
        async with self.endpoint.turn(0):
            return self._shown(await self._send(asked, body))

    async def _ask(self, asked: Asked, request: CheckedRequest) -> HttpAnswer:
        worst = request.worst
        if self.price is not None:
            worst = replace(worst, dollars=self.price.most(worst))
        if reason := self.budget.never(worst):
            raise UnfitRequest(reason, status=402)
        refused: list[HttpAnswer] = []

        async def once() -> HttpAnswer:
            async with (
                self.endpoint.turn(len(request.body) // BYTES_PER_TOKEN) as settle,
                self.budget.hold(worst, self.role, self.stage),
            ):
                answer = await self._send(asked, request.body)
                if answer.status != 200:
                    refused[:] = [answer]
                    raise classify(answer, self.remote.caller)
                usage = self._paid(asked, request.body, answer)
                settle(usage)
                self._note(asked, request, answer, usage)
                return self._shown(answer)

        try:
            answer = await self.retries.run(once)
        except ModelError as error:
            self.trouble = error
            for answer in refused:
                self._note(asked, request, answer, Usage())
                if isinstance(error, Refused):  # perhaps the program can ask in another way
                    return self._shown(answer)
            raise
        self.trouble = None
        return answer

    def _note(
        self, asked: Asked, request: CheckedRequest, answer: HttpAnswer, usage: Usage
    ) -> None:
        shown = self._shown(answer)
        self.calls.append(ProxiedCall(asked, request.body, shown.status, shown.body, usage))

    def _paid(self, asked: Asked, sent: bytes, answer: HttpAnswer) -> Usage:
        """What it took, once that is on disk; an answer that tells of an error takes nothing."""
        events, caller = read_answer(answer.body), self.remote.caller
        usage = counted_usage(asked, events)
        if not events:
            raise ModelError(caller.say("the answer is not JSON"), retryable=True)
        if usage is None and (said := broken_off(events)):
            raise classify(answer._replace(status=500, body=said.encode()), caller)
        usage = usage or estimated_usage(sent, answer.body)
        if self.price is not None:
            usage = replace(usage, dollars=self.price.cost(usage))
        self.budget.record(usage, role=self.role, stage=self.stage)
        return usage

    def _shown(self, answer: HttpAnswer) -> HttpAnswer:
        text = answer.body.decode(errors="surrogateescape")
        return answer._replace(body=self._without_secrets(text).encode(errors="surrogateescape"))

    def _without_secrets(self, text: str) -> str:
        return self.hide(self.remote.caller.credentials.hide(text))

    async def _send(self, asked: Asked, body: bytes | None) -> HttpAnswer:
        headers = {**self.remote.headers, **await self.remote.caller.credentials.headers()}
        url, timeout = _address(self.remote.url, asked, self.model), self.remote.timeout
        return await self.remote.http.send(url, headers=headers, timeout=timeout, body=body)


async def _whole(work: Coroutine[object, object, None]) -> None:
    """Do it to its end: a server that is cancelled while it starts would leave its socket open."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _address(url: str, asked: Asked, model: str) -> str:
    """Where the same server takes such a request."""
    parts = urlsplit(url)
    base = parts.path
    for known in ENDS:
        base = base.removesuffix(known)
    base = base.rpartition("/models/")[0] or base
    query = parts.query
    if asked.startswith(":"):
        base += f"/models/{model}"
        query = "alt=sse" if asked == ":streamGenerateContent" else ""
    return urlunsplit(parts._replace(path=base + asked, query=query))


def _error(status: int, message: str) -> web.Response:
    error = {"type": "proxy_error", "code": "proxy_error", "message": message}
    body = {"type": "error", "error": error}
    return web.Response(
        status=status, body=json.dumps(body).encode(), content_type="application/json"
    )
