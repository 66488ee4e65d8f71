"""What a class that is registered as a harness has, and what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from skillopt.core.chat import Model, Usage
from skillopt.core.ports import Harness, Sandbox
from skillopt.errors import ModelError

S = TypeVar("S")


def _unset(_: str) -> str | None:
    return None


class ServedModel(Protocol):
    """The target as a program can ask it, over a unix socket."""

    @property
    def path(self) -> Path:
        """The socket."""
        ...

    @property
    def usage(self) -> Usage:
        """What all calls took so far; it is paid."""
        ...

    @property
    def asking(self) -> int:
        """How many calls are under way."""
        ...

    @property
    def over(self) -> asyncio.Event:
        """Set when no further call can be made, so that there is nothing to wait for."""
        ...

    @property
    def trouble(self) -> ModelError | None:
        """Why the last call failed; None: it was answered."""
        ...

    def heard(self, words: str) -> bool:
        """Whether a request that was sent holds these words."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessContext(Generic[S]):
    model: Model
    """The target model. Its calls are retried, limited, cached and paid for."""
    model_name: str
    """The name of the target model, for a harness that runs a program with a model of its own."""
    settings: S
    """The `Settings` of the class, filled from the keys of `env`."""
    check_budget: Callable[[], Awaitable[None]]
    """Await it before something starts that will be charged; `BudgetSpent`: a limit is reached."""
    charge: Callable[[Usage], Awaitable[None]]
    """Counts what was spent outside of `model`, with its price where `dollars` is 0.

    It is on disk when this returns. `BudgetSpent`: it exceeds a limit.
    """
    serve_model: Callable[[int | None], AbstractAsyncContextManager[ServedModel]]
    """Serves the target on a unix socket, for programs of a user (`Sandbox.user`) that speak the
    API of OpenAI, Anthropic or Google. They need no key; what they spend is charged. `BudgetSpent`
    or `AccessError` at the end: no further call can be made. `ConfigError`: the target has no such
    API."""
    sandbox: Callable[[], Sandbox]
    """For code that a model wrote; `ConfigError` where there is none on this machine."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Keys of `model` that begin with the name of the harness, without it: `path`, `sandbox`."""
    effort: str = ""
    """The reasoning effort of the target; empty: left to the model."""
    variables: Callable[[str], str | None] = _unset
    """Environment variables that may be shown, such as `HOME`."""
    secret: Callable[[str], str | None] = _unset
    """The same for those that are secret, for a program that needs one of its own."""
    keep: Path | None = None
    """Where the folders in which agents worked are kept; None: nowhere."""


@runtime_checkable
class HarnessKind(Protocol):
    """A class registered under `skillopt.harnesses`.

    It may also have `Settings`, a dataclass whose fields become keys of `env`; `serves`, as in
    `TellsServed`; `uses_model = False` if it never asks the target model, which then needs no key;
    `uses_sandbox = True` if it cannot do without one, so that a missing one is an error before
    anything is spent;
    and `backend`, the backend of the model that it asks, so that its own name can be given as
    `model.target_backend`, with `backend_settings`, what keys of `model` then are.
    """

    def create(self, context: HarnessContext[Any], /) -> Harness:
        """A harness; a class method. What is wrong with the settings is an error now."""
        ...


@runtime_checkable
class SandboxKind(Protocol):
    """A class registered under `skillopt.sandboxes`."""

    def create(self) -> Sandbox:
        """A sandbox; a class method. `ConfigError` where this machine cannot have it."""
        ...
