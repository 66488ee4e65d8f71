"""What a provider is told about one model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Role: TypeAlias = Literal["target", "optimizer", "judge"]


class Variables(Protocol):
    """The environment, as far as a backend needs to know it."""

    def get(self, *names: str) -> str | None:
        """The first of these variables that is set; from now on its value is shown nowhere."""
        ...

    def setting(self, *names: str) -> str | None:
        """As `get`, for a value that may be shown."""
        ...


class NoVariables:
    """An environment without variables."""

    def get(self, *names: str) -> str | None:
        """Nothing is set."""
        del names
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
    """What only one provider understands."""
    variables: Variables = field(default_factory=NoVariables, repr=False, compare=False)


def names_for(role: Role, names: Iterable[str]) -> tuple[str, ...]:
    """A provider's environment variables, with `{ROLE}` filled in, in order of preference."""
    return tuple(name.format(ROLE=role.upper()) for name in names)
