"""What a class that is registered as a harness has, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from skillopt.core.chat import Model, Usage
from skillopt.core.ports import Harness, Sandbox

S = TypeVar("S")


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
    serve_model: Callable[[int | None], AbstractAsyncContextManager[Path]]
    """Serves the target on a unix socket, for programs of a user (`Sandbox.user`) that speak the
    API of OpenAI or Anthropic. They need no key; what they spend is charged. `BudgetSpent` at the
    end: a limit was reached. `ConfigError`: the target has no such API."""
    sandbox: Callable[[], Sandbox]
    """For code that a model wrote; `ConfigError` where there is none on this machine."""


@runtime_checkable
class HarnessKind(Protocol):
    """A class registered under `skillopt.harnesses`.

    It may also have `Settings`, a dataclass whose fields become keys of `env`; `serves`, as in
    `TellsServed`; `uses_model = False` if it never asks the target model, which then needs no key;
    and `uses_sandbox = True` if it cannot do without one, so that a missing one is an error before
    anything is spent.
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
