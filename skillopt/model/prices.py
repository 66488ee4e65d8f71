"""Prices of tokens: set by the user, or from a maintained list."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, Protocol

from skillopt.core.chat import Usage

PACKAGE: Final = "genai_prices"
_MILLION = 1_000_000


class Tariff(Protocol):
    """What calls to one model cost."""

    @property
    def source(self) -> str:
        """Who says so."""
        ...

    def cost(self, usage: Usage) -> float:
        """Dollars for the tokens of one call."""
        ...

    def most(self, usage: Usage) -> float:
        """The most that so many tokens can cost, whatever the provider had cached."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """None: as `input`."""
    source: str = "your configuration"

    def cost(self, usage: Usage) -> float:
        """Dollars for these tokens; those that the provider stored count as any others."""
        cached = min(usage.cached, usage.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input - cached) * self.input
        return (fresh + cached * cached_price + usage.output * self.output) / _MILLION

    def most(self, usage: Usage) -> float:
        """The most that so many tokens can cost, whatever the provider had cached."""
        dearest = max(self.input, self.cost(Usage(input=_MILLION, cached=_MILLION)))
        return (usage.input * dearest + usage.output * self.output) / _MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model in the list of the package genai-prices, which comes with the package: no network.

    Prices are those of one moment, so that what is set aside for a call is what it is billed by.
    """

    model: str
    seller: dict[str, str]
    """How the list finds who sells it: `provider_id` or `provider_api_url`."""
    at: datetime
    package: Any = field(repr=False)

    @property
    def source(self) -> str:
        """The list, its version and its names for the seller and the model."""
        found = self._price()
        version = self.package.__version__
        return f"genai-prices {version} ({found.provider.id} {found.model.id})"

    def cost(self, usage: Usage) -> float:
        """Dollars for the tokens of one call: long requests may have prices of their own."""
        cached = min(usage.cached, usage.input)
        stored = min(usage.stored, usage.input - cached)
        found = self._price(
            input_tokens=usage.input,
            cache_read_tokens=cached,
            cache_write_tokens=stored,
            output_tokens=usage.output,
        )
        return float(found.total_price)

    def most(self, usage: Usage) -> float:
        """The dearest of: nothing, everything read from, everything written to the cache."""
        plain = Usage(1, usage.input, usage.output)
        read = Usage(1, usage.input, usage.output, cached=usage.input)
        written = Usage(1, usage.input, usage.output, stored=usage.input)
        return max(map(self.cost, (plain, read, written)))

    def _price(self, **tokens: int) -> Any:  # noqa: ANN401 - the package's
        return self.package.calc_price(
            self.package.Usage(**tokens),
            self.model,
            genai_request_timestamp=self.at,
            **self.seller,
        )


def listed(model: str, **seller: str) -> Listed | None:
    """The model's price on the list; None if the package is not there or does not know it."""
    if not has_list():
        return None
    found = Listed(model=model, seller=seller, at=_now(), package=_package())
    try:
        found.most(Usage(1, _MILLION, _MILLION))
    except (LookupError, ValueError):
        return None
    return found


def has_list() -> bool:
    """Whether the package is installed."""
    return find_spec(PACKAGE) is not None


@cache
def _package() -> ModuleType:
    """Imported when first asked; it takes a quarter of a second."""
    return importlib.import_module(PACKAGE)


@cache
def _now() -> datetime:
    """One moment for the whole process."""
    return datetime.now(timezone.utc)
