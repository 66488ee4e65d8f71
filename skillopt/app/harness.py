"""The harness of a configuration, or the caller's own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeGuard, cast

from skillopt.app.costs import price_of
from skillopt.app.models import PROVIDERS, ModelFactory, provider_model
from skillopt.app.parts import NoSettings, blamed
from skillopt.config.registry import Registry
from skillopt.config.schema import Config, Role, settings_for
from skillopt.core.abilities import refuse_unserved
from skillopt.core.chat import Model, Reply, Request, Usage
from skillopt.core.episode import EpisodeNeed
from skillopt.core.ports import (
    Environment,
    Harness,
    Sandbox,
    TellsNeeds,
    TellsServed,
    WorksInFolder,
)
from skillopt.errors import ConfigError, Refused
from skillopt.harness.base import HarnessContext, HarnessKind, SandboxKind, ServedModel
from skillopt.model.rate_limits import AdaptiveConcurrency
from skillopt.model.remote import Remote

NO_SANDBOX = (
    "there is no sandbox (env.unsafe_no_sandbox): code that models write runs as you, on this "
    "machine. It can read and change your files, keys and runs, use the network, and see the right "
    "answers. Use this only where nothing is at stake, such as a throw-away container"
)
_EXPLICIT = {"openai_chat": "openai"}
"""Names of backends that are not the default, but mean the same."""


def _is_kind(found: object) -> TypeGuard[HarnessKind]:
    return inspect.isclass(found) and isinstance(found, HarnessKind)


HARNESSES = Registry[HarnessKind]("skillopt.harnesses", "harness", _is_kind)


def _is_sandbox(found: object) -> TypeGuard[SandboxKind]:
    return inspect.isclass(found) and isinstance(found, SandboxKind)


SANDBOXES = Registry[SandboxKind]("skillopt.sandboxes", "sandbox", _is_sandbox)


def make_sandbox(config: Config) -> Sandbox:
    if config.env.unsafe_no_sandbox:
        from skillopt.harness.unsafe import Unconfined  # only for those who ask for it

        return Unconfined.create()
    if problem := SANDBOXES.unknown(config.env.sandbox):
        raise config.complaint("env.sandbox", problem)
    return SANDBOXES.load(config.env.sandbox).create()


def harness_kind(config: Config) -> HarnessKind:
    if problem := HARNESSES.unknown(config.env.harness):
        raise config.complaint("env.harness", problem)
    return HARNESSES.load(config.env.harness)


def with_agent(config: Config) -> Config:
    """The configuration in which an agent that is named as `model.target_backend` is the harness.

    It then asks the backend that it says itself.
    """
    name = config.model.role("target").backend
    if not PROVIDERS.unknown(name) or HARNESSES.unknown(name):
        return config
    kind = HARNESSES.load(name)
    backend: object = getattr(kind, "backend", "")
    if not isinstance(backend, str) or not backend:
        told = f"{name} is a harness; write it as env.harness, and here the backend of its model"
        raise config.complaint("model.target_backend", told)
    if config.env.harness not in ("chat", name):
        told = f"{config.env.harness} cannot be used together with model.target_backend: {name}"
        raise config.complaint("env.harness", told)
    # `openai_chat` is the default, which would give way to `model.backend`.
    changes: dict[str, object] = {"target_backend": _EXPLICIT.get(backend, backend)}
    settings: Mapping[str, object] = getattr(kind, "backend_settings", {})
    for key, value in settings.items():
        if getattr(config.model, f"target_{key}", None) is None:
            changes[f"target_{key}"] = value
    model = config.model.model_copy(update=changes)
    return replace(config, model=model, env=config.env.model_copy(update={"harness": name}))


def settings_class(config: Config) -> type[object]:
    return getattr(harness_kind(config), "Settings", NoSettings)


def setting_names(config: Config, own: Harness | None) -> Collection[str]:
    """Keys of `env` that belong to the harness; the caller's `own` harness has none."""
    if own is not None:
        return ()
    kind = settings_class(config)
    return (
        [setting.name for setting in dataclasses.fields(kind)]
        if dataclasses.is_dataclass(kind)
        else []
    )


def fitted(config: Config, environment: Environment, own: Harness | None) -> Environment:
    """The environment as the harness can serve it; refuses wrong settings and what it cannot serve.

    Where the harness serves a workspace but not what the tasks need, they get their files there, if
    they can do with that. An environment that does not tell what it needs is checked task by task,
    before each attempt.
    """
    if own is not None:
        served = own.serves if isinstance(own, TellsServed) else ()
        return _served(environment, type(own).__name__, served)
    kind = harness_kind(config)
    settings_for(settings_class(config), config, also=config.env.own)
    if getattr(kind, "uses_sandbox", False):
        make_sandbox(config)
    serves: object = getattr(kind, "serves", ())
    if not isinstance(serves, Collection):  # a property of objects that are not made yet
        return environment
    return _served(environment, config.env.harness, cast("Collection[EpisodeNeed]", serves))


def _served(environment: Environment, harness: str, serves: Collection[EpisodeNeed]) -> Environment:
    needs = environment.needs if isinstance(environment, TellsNeeds) else ()
    unserved = not set(needs) <= set(serves)
    if unserved and "workspace" in serves and isinstance(environment, WorksInFolder):
        return environment.in_folder()
    refuse_unserved(environment.name, needs, harness, serves, partial(_able, needs))
    return environment


def _able(needs: Collection[EpisodeNeed]) -> list[str]:
    """The registered harnesses that are known to serve all of this."""
    found: list[str] = []
    for name in HARNESSES.names:
        with suppress(ConfigError):  # of a package that cannot be imported
            serves: object = getattr(HARNESSES.load(name), "serves", ())
            if isinstance(serves, Collection) and set(needs) <= set(
                cast("Collection[str]", serves)
            ):
                found.append(name)
    return found


def make_harness(
    config: Config, model: Model, factory: ModelFactory, keep: Path | None = None
) -> Harness:
    """The harness; workspaces are kept in this folder, if the settings ask for it."""
    role, budget = config.model.role("target"), factory.budget
    look = factory.secrets.setting
    options = config.model.options(config.env.harness, "target")
    tries = config.model.exec_empty_response_retries
    options["empty_response_retries"] = (
        look("EXEC_EMPTY_RESPONSE_RETRIES") if tries is None else tries
    )
    options["trace_to_optimizer"] = config.model.codex_trace_to_optimizer
    price = price_of(role)
    http = AdaptiveConcurrency(factory.http)

    async def charge(usage: Usage) -> None:
        if price is not None and not usage.dollars:
            usage = replace(usage, dollars=price.cost(usage))
        await budget.charge(usage, role="target", stage="rollout")

    @asynccontextmanager
    async def serve_model(owner: int | None) -> AsyncGenerator[ServedModel, None]:
        connection = provider_model(role, factory.secrets, http)
        remote, endpoint = connection.wire, factory.endpoint(role, connection)
        if not isinstance(remote, Remote):
            raise ConfigError(
                f"env.harness: {config.env.harness} runs a program that asks the target over HTTP, "
                f"and model.target_backend: {role.backend} has no HTTP API; choose another"
            )
        from skillopt.model.proxy import ModelProxy  # brings a web server with it

        proxy = ModelProxy(
            remote=remote,
            model=role.model,
            budget=budget,
            endpoint=endpoint,
            hide=factory.secrets.hide_values,
            price=price,
            max_tokens=role.max_tokens,
            retries=factory.retries(role, endpoint),
            web_search=bool(options.get("web_search")),
        )
        async with proxy.serve(owner=owner):
            yield proxy

    context = HarnessContext(
        model=model,
        model_name=role.model,
        settings=settings_for(settings_class(config), config, also=config.env.own),
        check_budget=budget.check,
        charge=charge,
        serve_model=serve_model,
        sandbox=partial(make_sandbox, config),
        options=options,
        effort=role.reasoning_effort,
        variables=look,
        secret=factory.secrets.get,
        keep=keep if config.env.keep_workspaces else None,
    )
    kind = harness_kind(config)
    with blamed(kind, f"env.harness {config.env.harness}"):
        return kind.create(context)


@dataclass(frozen=True, slots=True)
class NoModel:
    """Stands in for the target where the harness does not ask it."""

    fingerprint: str

    async def complete(self, request: Request) -> Reply:
        """Refuse; whoever asks the target itself, as deep reflection does, cannot."""
        del request
        raise Refused(f"the harness {self.fingerprint} has no target model that can be asked")


def models_with_harness(
    config: Config, models: Mapping[Role, Model], own: Harness | None
) -> Mapping[Role, Model]:
    """The caller's own models; a stand-in is the target, if the harness does not ask any.

    Then the target needs no key.
    """
    if "target" in models:
        return models
    if own is not None:
        return {**models, "target": NoModel(own.fingerprint)}
    asks: object = getattr(harness_kind(config), "uses_model", True)
    return models if asks else {**models, "target": NoModel(config.env.harness)}
