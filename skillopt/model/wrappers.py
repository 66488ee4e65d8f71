"""Models that wrap another model and add one behaviour each.

The order, from the outside, is `Recorded(Retrying(NonEmpty(Limited(Metered(Cleaned(backend))))))`:
every answer is counted, a slot is free while a call waits for its retry, and a cached reply is not
paid for again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from skillopt.core.chat import Image, Message, Model, Reply, Request, Tool, ToolCall
from skillopt.core.intake import clean_reply, is_blank
from skillopt.core.ports import RolloutCache
from skillopt.errors import ModelError, Refused, Unusable
from skillopt.model.budget import Budget, worst_case
from skillopt.model.prices import Tariff
from skillopt.model.rate_limits import CircuitBreaker, Endpoint

T = TypeVar("T")

LONGEST_ASKED = 120.0
"""Seconds; a server that asks for a longer wait is not waited for."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A model around another. Whatever it adds is no reason for other answers."""

    inner: Model

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Tries again after an error that may pass.

    Waits at least as long as the server asks, plus between half and the whole of a wait that
    doubles: calls that failed together come back apart, and none comes back at once. The error
    that remains is final: a second layer around this one repeats nothing.
    """

    tries: int = 5
    first_wait: float = 1.0
    max_wait: float = 30.0
    server: CircuitBreaker | None = None
    """Whether the server is down: such an outage is waited for, however many tries it takes."""
    tell: Callable[[ModelError], None] = lambda _: None
    """Hears of each error after which it is tried again."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        tried, failures, heard = 0, 0, -1
        while True:
            try:
                return await attempt()
            except ModelError as error:
                if not error.retryable:
                    raise
                failed = error
            tried, failures = tried + 1, failures + 1
            # As long as nobody gets an answer, it is not this request that is at fault.
            if self.server is not None:
                silent = heard in (-1, self.server.answers)
                heard = self.server.answers
                if silent and self.server.waited_for:
                    tried = min(tried, self.tries - 1)
            asked = failed.retry_after or 0.0
            if tried < self.tries and asked <= LONGEST_ASKED:
                self.tell(failed)
                longest = min(self.max_wait, self.first_wait * 2 ** (failures - 1))
                await self.sleep(asked + longest * (1 + self.random()) / 2)
                continue
            reason = f": the server asks to wait {asked:.0f} s"
            if tried >= self.tries:
                reason = f" after {tried} {'try' if tried == 1 else 'tries'}"
            kind = Unusable if isinstance(failed, Unusable) else ModelError
            raise kind(f"{failed} (gave up{reason})") from failed


@dataclass(frozen=True, slots=True)
class Retrying(Wrapper):
    """Asks again after an error that may pass."""

    policy: RetryPolicy = RetryPolicy()

    async def complete(self, request: Request) -> Reply:
        return await self.policy.run(lambda: self.inner.complete(request))


@dataclass(frozen=True, slots=True)
class NonEmpty(Wrapper):
    """Takes no reply for an answer that holds neither visible text nor a call of a tool.

    A server that says nothing is a fault that may pass, not a wrong answer; unless the request says
    that silence is one.
    """

    role: str

    async def complete(self, request: Request) -> Reply:
        """Answer, or raise: retryable where asking again may help."""
        reply = await self.inner.complete(request)
        if request.empty_ok or reply.calls or not is_blank(reply.text):
            return reply
        what = f"the {self.role} model sent an empty reply"
        match reply.stop:
            case "length":
                raise Unusable(
                    f"{what}: all {reply.usage.output} tokens were used before the first word, "
                    f"probably for reasoning; raise model.{self.role}_max_tokens, or lower the "
                    "reasoning effort"
                )
            case "filter":
                raise Refused(f"{what}: the provider's content filter withheld it")
            case _:
                raise Unusable(f"{what} (no text, no tool call)", retryable=True)


@dataclass(frozen=True, slots=True)
class Limited(Wrapper):
    """Calls through an endpoint's limits, shared with every other model behind it."""

    endpoint: Endpoint

    async def complete(self, request: Request) -> Reply:
        return await self.endpoint.call(self.inner, request)


@dataclass(frozen=True, slots=True)
class Cleaned(Wrapper):
    """Replies within limits, as text that can be stored, without the run's own secrets."""

    hide: Callable[[str], str]
    """Takes secrets out of a text."""

    async def complete(self, request: Request) -> Reply:
        reply = clean_reply(await self.inner.complete(request))
        hide = self.hide
        calls = tuple(
            ToolCall(hide(call.id), hide(call.name), hide(call.arguments)) for call in reply.calls
        )
        clean = (hide(reply.text), calls, hide(reply.memo))
        if clean == (reply.text, reply.calls, reply.memo):
            return reply
        return replace(reply, text=clean[0], calls=calls, memo=clean[2])


@dataclass(frozen=True, slots=True)
class Metered(Wrapper):
    """Pays for each answer from the budget: one call, its tokens and, where known, its price."""

    role: str
    budget: Budget
    price: Tariff | None = None
    """None: unknown, and counted as what the model itself says, if it does."""
    max_tokens: int = 0
    """The longest answer where a request does not say."""

    async def complete(self, request: Request) -> Reply:
        """Answer, with `calls` and `dollars` set, unless it might cost more than there is."""
        worst = worst_case(request, self.max_tokens)
        most = worst.dollars if self.price is None else self.price.most(worst)
        async with self.budget.hold(replace(worst, dollars=most), self.role, request.stage) as pay:
            reply = await self.inner.complete(request)
            used = self.budget.counted(reply.usage, request, reply.text)
            dollars = used.dollars if self.price is None else self.price.cost(used)
            usage = replace(used, calls=1, dollars=dollars)
            pay(usage)
        return replace(reply, usage=usage)


@dataclass(frozen=True, slots=True)
class Recorded(Wrapper):
    """Asks only what was not answered before, in this process or an earlier one."""

    role: str
    cache: RolloutCache

    async def complete(self, request: Request) -> Reply:
        return await self.cache.reply(
            call_key(self.role, self.fingerprint, request),
            role=self.role,
            stage=request.stage,
            make=lambda: self.inner.complete(request),
        )


def call_key(role: str, fingerprint: str, request: Request) -> str:
    """Name of a call by everything that may change its answer."""
    return _sha256(json.dumps([role, fingerprint, request], default=_fields))


def _fields(value: Request | Message | Image | Tool | ToolCall | Mapping[str, object]) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    # What is empty is left out, so that a new field does not change the keys of older requests.
    fields = {name: getattr(value, name) for name in value.__slots__}
    return {
        name: [_sha256(content)] if isinstance(content, str) and len(content) > 64 else content
        for name, content in fields.items()
        if content not in (None, "", ())
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
