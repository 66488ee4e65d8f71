"""The models of a run, each wrapped in everything that a call needs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeGuard
from urllib.parse import urlsplit

from skillopt.app.costs import price_of, told_price
from skillopt.config.model_section import BACKENDS
from skillopt.config.registry import Registry
from skillopt.config.schema import Config, Role, RoleModel
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Message, Model, Request
from skillopt.core.events import Event, Retried, Signal
from skillopt.core.ports import RolloutCache, Watcher
from skillopt.errors import ConfigError, ModelError, Refused
from skillopt.model.budget import Budget
from skillopt.model.errors import RateLimited
from skillopt.model.handoff import HandoffQueue
from skillopt.model.prices import Tariff
from skillopt.model.provider import ModelSettings, Provider, Transport, names_for
from skillopt.model.rate_limits import AdaptiveConcurrency, CircuitBreaker, Endpoint
from skillopt.model.remote import Remote
from skillopt.model.weights import default_root
from skillopt.model.wrappers import (
    Cleaned,
    Limited,
    Metered,
    NonEmpty,
    Recorded,
    Retrying,
    RetryPolicy,
)

_FIELDS = {
    "model": "name",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "timeout_seconds": "timeout",
    "reasoning_effort": "effort",
}
"""Settings of a role that a backend may fill in where they are left open, by its own names."""
_OWN_WAIT, _OWN_MAX_WAIT = 0.1, 1.0
"""Seconds before a function of the caller's own is called again."""
_HELLO = Request(
    stage="preflight",
    messages=(Message("user", "Reply with OK."),),
    max_tokens=16,
    empty_ok=True,  # a model that thinks first may not get any further
)


def _is_provider(found: object) -> TypeGuard[type[Provider]]:
    return inspect.isclass(found) and issubclass(found, Provider)


PROVIDERS = Registry[type[Provider]]("skillopt.models", "model backend", _is_provider, BACKENDS)


def provider_of(role: RoleModel) -> type[Provider]:
    return PROVIDERS.load(role.backend)


def check_backends(config: Config, roles: Iterable[Role]) -> None:
    """Refuse a backend that nobody has registered, before anything is read or estimated."""
    for name in roles:
        backend = config.model.role(name).backend
        if problem := PROVIDERS.unknown(backend):
            if backend.endswith("_exec"):
                problem = f"{backend} runs a coding agent on tasks, so it can only be the target"
            own = getattr(config.model, f"{name}_backend") == backend
            raise config.complaint(f"model.{name}_backend" if own else "model.backend", problem)


def roles_of(config: Config) -> list[Role]:
    """Those that the settings name; a judge only where one is mentioned."""
    roles: list[Role] = ["target", "optimizer"]
    own = config.model.model_dump()
    if any(own[key] is not None for key in own if key.startswith("judge")):
        roles.append("judge")
    return roles


def supplied_models(
    config: Config, roles: Iterable[Role], own: Mapping[Role, Model]
) -> dict[Role, Model]:
    """The caller's own models by role; a judge that no setting mentions is the optimizer."""
    models = dict(own)
    if "judge" in roles and "judge" not in roles_of(config) and "optimizer" in own:
        models.setdefault("judge", own["optimizer"])
    return models


def with_backend_defaults(config: Config, secrets: Secrets) -> Config:
    """The configuration with what was left open as each backend will ask it.

    Environment variables and defaults of a backend may name the model, its temperature and its
    longest answer. Whoever shows or records the settings reads them here, so that what is told is
    what is asked.
    """
    filled: dict[str, object] = {}
    for name in roles_of(config):
        with suppress(ConfigError):  # whoever connects the model tells it
            role = config.model.role(name)
            provider = provider_of(role)
            settings = provider.settle(_settings(role, provider, secrets))
            asked = {key: getattr(settings, attribute) for key, attribute in _FIELDS.items()}
            asked["reasoning_effort"] = settings.effort or ""
            for key, value in asked.items():
                if value != getattr(role, key):
                    filled[name if key == "model" else f"{name}_{key}"] = value
    if not filled:
        return config
    return replace(config, model=config.model.model_copy(update=filled))


@dataclass(frozen=True, slots=True)
class ProviderModel:
    """A model as its provider makes it, with nothing around it."""

    settings: ModelSettings
    wire: Model
    url: str
    """The address that it is called at; blank where there is none."""


def provider_model(
    role: RoleModel, secrets: Secrets, http: Transport, queue: HandoffQueue | None = None
) -> ProviderModel:
    """Find the provider, the key and the address of a role; what is missing is an error now."""
    provider = provider_of(role)
    settings = provider.settle(_settings(role, provider, secrets, queue))
    if settings.api_key is None and (provider.key_required or role.api_key_env):
        names = _key_names(role, provider, settings.owner or role.role)
        raise ConfigError(
            f"the {role.role} model {role.model!r} needs a key: set {' or '.join(names)} "
            "in the environment or in .env"
        )
    wire = provider.create(settings, http)
    served = bool(provider.url_variables or provider.default_url)
    address = settings.base_url or provider.default_url
    return ProviderModel(
        settings, wire, wire.url if isinstance(wire, Remote) else address if served else ""
    )


def _key_names(role: RoleModel, provider: type[Provider], owner: Role) -> tuple[str, ...]:
    return (role.api_key_env,) if role.api_key_env else names_for(owner, provider.key_variables)


def _settings(
    role: RoleModel, provider: type[Provider], secrets: Secrets, queue: HandoffQueue | None = None
) -> ModelSettings:
    owner = _owner(role, provider, secrets)
    names = _key_names(role, provider, owner)
    key = secrets.get(*names) if names else None
    urls = names_for(owner, provider.url_variables)
    source = secrets.first_set(*names)
    if not role.base_url:
        secrets.check_address(secrets.first_set(*urls), source)
    url = role.base_url or (secrets.setting(*urls) if urls else None)
    secrets.hide_address(url or "")
    return ModelSettings(
        role=role.role,
        name=role.model,
        base_url=url or "",
        api_key=key,
        key_source=source,
        temperature=role.temperature,
        max_tokens=role.max_tokens,
        effort=_effort(role, provider),
        timeout=role.timeout_seconds,
        extra={"folder": default_root(secrets.setting), "queue": queue, **role.extra},
        left_open=_left_open(role),
        owner=owner,
        variables=secrets,
    )


def _owner(role: RoleModel, provider: type[Provider], secrets: Secrets) -> Role:
    """Whose variables count: its own as soon as one is set, so that no key goes astray."""
    all_names = (*provider.key_variables, *provider.url_variables)
    own = names_for(role.role, [name for name in all_names if "{ROLE}" in name])
    return role.role if own and secrets.setting(*own) else role.lender


def unwatched(_: Event | Signal) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class ModelFactory:
    """Connects roles to models.

    Two roles behind one server share its limits, unless each is given its own.
    """

    secrets: Secrets
    http: Transport
    cache: RolloutCache
    budget: Budget
    queue: HandoffQueue | None = None
    """Where questions for people go; None: nowhere."""
    watch: Watcher = unwatched
    """Hears of servers that are down, and of calls that are made again."""
    endpoints: dict[tuple[object, ...], Endpoint] = field(
        default_factory=dict[tuple[object, ...], Endpoint]
    )

    def models_for(
        self, config: Config, roles: Iterable[Role], own: Mapping[Role, Model]
    ) -> dict[Role, Model]:
        """For each role the caller's own model, or else the one that the settings name."""
        most: dict[Role, int] = {"optimizer": config.gradient.analyst_workers}
        models: dict[Role, Model] = {}
        for name in roles:
            role, concurrency = config.model.role(name), most.get(name)
            models[name] = (
                self.adopt(own[name], role, concurrency=concurrency)
                if name in own
                else self.connect(role, concurrency=concurrency)
            )
        return models

    def connect(self, role: RoleModel, *, concurrency: int | None = None) -> Model:
        """The model of a role, from the wire up; `concurrency` bounds this role alone."""
        connection = provider_model(role, self.secrets, AdaptiveConcurrency(self.http), self.queue)
        metered = self._metered(connection.wire, role, price_of(role))
        endpoint = self.endpoint(role, connection)
        limited = _limited(metered, role, endpoint, concurrency)
        retrying = Retrying(limited, self.retries(role, endpoint))
        return Recorded(retrying, role.role, self.cache)

    def adopt(self, model: Model, role: RoleModel, *, concurrency: int | None = None) -> Model:
        """A model of the caller's own, in a role: no server, so there is little to wait for."""
        metered = self._metered(model, role, told_price(role))
        limited = _limited(metered, role, _endpoint(role.role, role), concurrency)
        policy = RetryPolicy(role.retries + 1, first_wait=_OWN_WAIT, max_wait=_OWN_MAX_WAIT)
        return Recorded(Retrying(limited, policy), role.role, self.cache)

    def retries(self, role: RoleModel, endpoint: Endpoint) -> RetryPolicy:
        """How a role asks again; whoever watches hears of it."""

        def tell(error: ModelError) -> None:
            self.watch(Retried(role.role, isinstance(error, RateLimited)))

        return RetryPolicy(role.retries + 1, server=endpoint.breaker, tell=tell)

    def _metered(self, model: Model, role: RoleModel, price: Tariff | None) -> Model:
        cleaned = Cleaned(model, self.secrets.hide_values)
        return Metered(cleaned, role.role, self.budget, price, role.max_tokens)

    def endpoint(self, role: RoleModel, connection: ProviderModel) -> Endpoint:
        """The limits of the server, shared by all who ask it with this key."""
        limits = role.max_concurrency, role.requests_per_minute, role.tokens_per_minute
        place = (role.backend, connection.url, connection.settings.api_key, *limits)
        if place not in self.endpoints:
            name = urlsplit(connection.url).netloc.rpartition("@")[2] or role.backend
            breaker = CircuitBreaker(name, patience=role.outage_seconds, tell=self.watch)
            self.endpoints[place] = _endpoint(name, role, breaker)
        return self.endpoints[place]


def _endpoint(name: str, role: RoleModel, breaker: CircuitBreaker | None = None) -> Endpoint:
    return Endpoint(
        name,
        concurrency=role.max_concurrency,
        requests_per_minute=role.requests_per_minute,
        tokens_per_minute=role.tokens_per_minute,
        breaker=breaker,
    )


def _limited(model: Model, role: RoleModel, endpoint: Endpoint, concurrency: int | None) -> Model:
    """Within the limits of its server, and of its role alone; an empty reply is none."""
    limited = Limited(model, endpoint)
    if concurrency is not None:
        limited = Limited(limited, Endpoint(role.role, concurrency=concurrency))
    return NonEmpty(limited, role.role)


def _left_open(role: RoleModel) -> frozenset[str]:
    """What nobody set; an effort that is given for this role alone is meant, whatever it is."""
    meant = set[str]() if role.own_reasoning_effort is None else {"reasoning_effort"}
    return frozenset(_FIELDS.get(name, name) for name in role.left_open - meant)


def _effort(role: RoleModel, provider: type[Provider]) -> str | None:
    """Servers that may not know the field get it only if it is meant for their model."""
    shared = role.reasoning_effort if provider.takes_shared_effort else ""
    return (shared if role.own_reasoning_effort is None else role.own_reasoning_effort) or None


async def preflight(model: Model) -> None:
    """Find a wrong key, an unknown model or a dead server before any work is paid for.

    The answer is kept like any other, so a continued run does not ask again.
    """
    try:
        await model.complete(_HELLO)
    except Refused:
        return  # The server is there and knows us; that it dislikes this question is no matter.
