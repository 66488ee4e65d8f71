"""What a provider is told about one model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["target", "optimizer", "judge"]


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


def names_for(role: Role, names: Iterable[str]) -> tuple[str, ...]:
    """A provider's environment variables, with `{ROLE}` filled in, in order of preference."""
    return tuple(name.format(ROLE=role.upper()) for name in names)
