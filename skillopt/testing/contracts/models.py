"""What the engine expects of a model.

    async def test_my_model_keeps_the_contract():
        await check_model(MyModel(...), secret="sk-the-key-it-was-given")

The checks send about a dozen short requests to the model, so use a local server or a script.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

from skillopt.aio import map_all
from skillopt.core.chat import Image, Message, Model, Reply, Request, Tool, Usage
from skillopt.errors import Refused
from skillopt.testing.contracts import check_fingerprint, expect

AT_ONCE = 8
DOT = bytes.fromhex(
    "47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b"
)
"""An image of one pixel."""


async def check_model(model: Model, *, secret: str | None = None) -> None:
    """Run all checks of this module."""
    check_fingerprint(model)
    await check_answer(model)
    await check_many_at_once(model)
    await check_cancelled(model)
    await check_demands(model)
    if secret is not None:
        check_secret(model, secret)


async def check_answer(model: Model) -> None:
    """A request gets a valid reply and does not change the fingerprint."""
    before = model.fingerprint
    _check_reply(await model.complete(_question(0)))
    expect(model.fingerprint == before, "asking changes the fingerprint")


async def check_many_at_once(model: Model) -> None:
    """Parallel requests are all answered."""
    replies = await map_all(model.complete, [_question(n) for n in range(AT_ONCE)])
    for reply in replies:
        _check_reply(reply)


async def check_cancelled(model: Model) -> None:
    """A cancelled call ends, and the model still answers afterwards."""
    call = asyncio.ensure_future(model.complete(_question(0)))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call], timeout=5)
    expect(call.done(), "a cancelled call goes on")
    _check_reply(await model.complete(_question(1)))


async def check_demands(model: Model) -> None:
    """A request with a tool, an image or a schema is answered or raises `Refused`."""
    look = Tool("look", "Looks around.", {"type": "object", "properties": {}})
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    plain = _question(0)
    shown = replace(plain.messages[-1], images=(Image.of(DOT, "image/gif"),))
    for request in (
        replace(plain, tools=(look,)),
        replace(plain, schema=schema),
        replace(plain, messages=(*plain.messages[:-1], shown)),
    ):
        try:
            reply = await model.complete(request)
        except Refused:
            continue
        _check_reply(reply)
        expect(not reply.calls or bool(request.tools), "a tool is called that was not offered")


def check_secret(model: Model, secret: str) -> None:
    """Neither repr nor fingerprint contains the key."""
    expect(secret not in repr(model), "the repr shows the key")
    expect(secret not in model.fingerprint, "the fingerprint shows the key")


def _question(replicate: int) -> Request:
    messages = (Message("system", "You answer briefly."), Message("user", "Reply with OK."))
    return Request(stage="contract", messages=messages, replicate=replicate)


def _check_reply(reply: Reply) -> None:
    expect(isinstance(cast("object", reply.text), str), "the text of the reply is not a string")
    expect(reply.stop in ("end", "length", "tool", "filter"), f"unknown stop {reply.stop!r}")
    check_usage(reply.usage)


def check_usage(used: Usage) -> None:
    """No number of a usage is below zero, and parts are not more than the whole."""
    for name in ("calls", "input", "output", "cached", "dollars", "estimated"):
        expect(getattr(used, name) >= 0, f"usage.{name} is below zero")
    expect(used.estimated <= used.calls, "more calls were estimated than made")
    expect(used.cached <= used.input, "more tokens came from the cache than were sent")
