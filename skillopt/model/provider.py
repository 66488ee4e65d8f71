"""What a backend is, what it is told about one model, and what it needs from a transport."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from skillopt.core.chat import Model, Request
from skillopt.core.nearest import did_you_mean
from skillopt.errors import ConfigError

Role: TypeAlias = Literal["target", "optimizer", "judge"]
T = TypeVar("T")
N = TypeVar("N", int, float)


class Variables(Protocol):
    """The environment, as far as a backend may ask."""

    def get(self, *names: str) -> str | None:
        """The first of these variables that is set; its value is a secret."""
        ...

    def setting(self, *names: str) -> str | None:
        """As `get`, for a value that may be shown."""
        ...


class NoVariables:
    """An environment without variables."""

    def get(self, *_: str) -> str | None:
        return None

    setting = get


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model in one role. Its repr shows neither the key nor the address."""

    role: Role
    name: str
    """The model as the provider calls it."""
    base_url: str = field(default="", repr=False)
    """Blank: the provider's default. A user and password in it are sent instead of the key."""
    api_key: str | None = field(default=None, repr=False)
    key_source: str = ""
    """The environment variable that the key came from, for error messages."""
    temperature: float | None = None
    max_tokens: int | None = None
    effort: str | None = None
    """None or blank: left to the provider."""
    timeout: float = 300.0
    """Seconds for one attempt from connecting to the last byte."""
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """What only one backend understands."""
    left_open: frozenset[str] = frozenset()
    """Fields that nobody set, so that a backend may prefer its own variables and defaults."""
    owner: Role | None = None
    """The role whose environment variables count, where it is another."""
    variables: Variables = field(default_factory=NoVariables, repr=False, compare=False)

    def for_request(self, request: Request) -> ModelSettings:
        """The same with the wishes of a request, which go before the settings."""
        wishes = {
            name: wish
            for name in ("max_tokens", "temperature", "effort")
            if (wish := getattr(request, name)) is not None
        }
        return replace(self, **wishes) if wishes else self


def names_for(role: Role, names: Iterable[str]) -> tuple[str, ...]:
    """A backend's environment variables, with `{ROLE}` filled in, in order of preference."""
    return tuple(name.format(ROLE=role.upper()) for name in names)


def variable(settings: ModelSettings, name: str, read: Callable[[str], T]) -> T | None:
    """What `ROLE_NAME` or else `NAME` says, as `read` understands it; None when neither is set."""
    for full_name in names_for(settings.owner or settings.role, (f"{{ROLE}}_{name}", name)):
        text = settings.variables.setting(full_name)
        if text is None:
            continue
        try:
            return read(text)
        except ValueError as error:
            raise ConfigError(f"the variable {full_name} is set to {text!r}: {error}") from None
    return None


def filled(settings: ModelSettings, prefix: str, defaults: Mapping[str, object]) -> ModelSettings:
    """The settings with what was left open taken from `[ROLE_]PREFIX_X`, else from these defaults.

    X is MODEL, TEMPERATURE, MAX_TOKENS or TIMEOUT_SECONDS.
    """
    changes: dict[str, object] = {}
    for name, (suffix, read) in _FILLED.items():
        value = variable(settings, f"{prefix}_{suffix}", read)
        value = defaults.get(name) if value is None else value
        if name in settings.left_open and value is not None:
            changes[name] = value
    return replace(settings, **changes) if changes else settings


def yes_or_no(text: str) -> bool:
    """`true`, `1`, `yes`, `on` and their opposites."""
    match text.strip().lower():
        case "true" | "1" | "yes" | "on":
            return True
        case "false" | "0" | "no" | "off":
            return False
        case _:
            raise ValueError("it should be true or false")


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one of these words."""

    def read(text: str) -> str:
        if text not in words:
            hint = did_you_mean(text, words)
            raise ValueError(
                f"it should be one of {', '.join(words)}" + (f"; {hint}" if hint else "")
            )
        return text

    return read


def _from(least: N, kind: Callable[[str], N]) -> Callable[[str], N]:
    """A reader of finite numbers of this kind, from the least one up."""
    what = "whole number" if kind is int else "number"

    def read(text: str) -> N:
        try:
            number = kind(text)
        except ValueError:
            raise ValueError("it should be a number") from None
        if not least <= number < float("inf"):
            raise ValueError(f"it should be a {what} from {least:g} up")
        return number

    return read


_FILLED: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "name": ("MODEL", str),
    "temperature": ("TEMPERATURE", _from(0.0, float)),
    "max_tokens": ("MAX_TOKENS", _from(1, int)),
    "timeout": ("TIMEOUT_SECONDS", _from(1, int)),
}
"""Settings that variables may fill in: the end of the variable's name, and how it is read."""


class HttpAnswer(NamedTuple):
    """A complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends HTTP requests."""

    async def send(
        self, url: str, *, headers: Mapping[str, str], timeout: float, body: bytes | None = None
    ) -> HttpAnswer:
        """POST a body, or GET without one, and read the whole response within `timeout` seconds.

        Raises `Unreachable` if there is no answer, `ModelError` if it is incomplete.
        """
        ...


class Provider:
    """Base of the classes that are registered under `skillopt.models`."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables for the key, in order of precedence; `{ROLE}` is the role."""
    url_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables for the base URL."""
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    """Empty: the user must set one."""
    takes_shared_effort: ClassVar[bool] = False
    """Whether `model.reasoning_effort` is sent, which is set for all roles."""

    @classmethod
    def settle(cls, settings: ModelSettings) -> ModelSettings:
        """The settings that are really used, with what the user did not set filled in.

        Calling it twice must change nothing more.
        """
        return settings

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """Create a model; missing settings are an error now."""
        raise NotImplementedError
