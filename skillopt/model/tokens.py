"""Estimates tokens that a server did not report."""

from __future__ import annotations

from dataclasses import replace

from skillopt.core.chat import Message, Reply, Request, Usage

_LETTERS_PER_TOKEN = 4
_PER_IMAGE = 1000
"""What a picture of common size takes."""


def estimate_input(request: Request) -> int:
    """Tokens sent, roughly: known before the call, unlike those that come back."""
    return sum(map(_tokens, request.messages))


def counted(request: Request, reply: Reply) -> Reply:
    """The reply; where its server did not count, with an estimate that is marked as one."""
    if reply.usage.input or reply.usage.output:
        return reply
    letters = len(reply.text) + sum(len(call.arguments) for call in reply.calls)
    output = -(-letters // _LETTERS_PER_TOKEN)
    return replace(reply, usage=Usage(1, estimate_input(request), output, estimated=1))


def _tokens(message: Message) -> int:
    letters = len(message.text) + sum(len(call.arguments) for call in message.calls)
    return letters // _LETTERS_PER_TOKEN + _PER_IMAGE * len(message.images)
