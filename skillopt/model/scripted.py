"""Models that are Python functions: for tests, documentation and the Python API."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

from skillopt.aio import in_task, in_thread
from skillopt.core.callables import identify
from skillopt.core.chat import Reply, Request
from skillopt.errors import ConfigError, ModelError, attributed_to
from skillopt.model.provider import ModelSettings, Provider, Transport
from skillopt.model.wire import check_abilities

Said: TypeAlias = str | Reply
PlainCallable: TypeAlias = (
    Callable[[str], Said | Awaitable[Said]] | Callable[[Request], Said | Awaitable[Said]]
)
"""What the Python API takes as a model: gets the prompt's text, or the whole request."""


@dataclass(frozen=True, slots=True)
class Scripted(Provider):
    """Answers by calling `answer` in the event loop; what it raises becomes a `ModelError`."""

    answer: Callable[[Request], Said | Awaitable[Said]]
    name: str = "scripted:function"
    identity: str = ""
    """Changes when its answers may; blank: the name says it all."""

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Scripted:
        """The callable that the model's name points to, as `module:function`."""
        del http
        module, _, attribute = settings.name.partition(":")
        try:
            function: object = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError, SystemExit) as error:
            raise ConfigError(
                f"the {settings.role} model {settings.name!r} is not a `module:function` that "
                f"can be imported ({error})"
            ) from error
        if not callable(function):
            raise ConfigError(f"the {settings.role} model {settings.name!r} cannot be called")
        return from_callable(cast("PlainCallable", function))

    @property
    def fingerprint(self) -> str:
        return self.identity or self.name

    async def complete(self, request: Request) -> Reply:
        """Call the function; a string is a reply of unknown size."""
        with attributed_to(partial(ModelError, retryable=True), self.name):
            said: object = self.answer(request)
            if inspect.isawaitable(said):
                said = await said
        match said:
            case str():
                return Reply(text=said)
            case Reply():
                return said
            case _:
                raise ModelError(
                    f"{self.name} returned {type(said).__name__}; return a string or a Reply"
                )


def from_callable(function: PlainCallable) -> Scripted:
    """A model out of `fn(prompt: str)` or `fn(request: Request)`, returning str or Reply.

    It gets the request if its one parameter is called `request` or annotated `Request`, otherwise
    the texts of all messages as one prompt. A coroutine function is awaited; any other runs in a
    thread of its own, so it may block. The fingerprint follows its code and the values that it
    uses, or is what it declares as its own `fingerprint`.
    """
    call = cast("Callable[[object], object]", function)
    identity = identify(call)
    name = f"scripted:{identity.name}"
    wants_request = _wants_request(call, name)
    is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - the method itself is looked at
    )

    async def answer(request: Request) -> Said:
        if not wants_request:
            check_abilities(request, f"{name}, which takes a prompt and not the request,")
        argument = (
            request if wants_request else "\n\n".join(message.text for message in request.messages)
        )
        said = call(argument) if is_async else await in_thread(call, argument)
        if inspect.isawaitable(said):
            said = await in_task(cast("Awaitable[object]", said))
        return cast("Said", said)

    return Scripted(answer, name, f"scripted:{identity.text}")


def _wants_request(function: Callable[[object], object], name: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(None)
    except TypeError as error:
        raise ConfigError(
            f"{name} cannot be a model ({error}); a model takes one argument, the prompt"
        ) from error
    first = next(iter(signature.parameters.values()))
    annotated = first.annotation is Request or str(first.annotation).rpartition(".")[2] == "Request"
    return first.name == "request" or annotated
