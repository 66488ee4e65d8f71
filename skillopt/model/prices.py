"""Prices of tokens: set by the user, or from a maintained list."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, TypeAlias

from skillopt.core.chat import Usage

PACKAGE: Final = "genai_prices"
_MILLION = 1_000_000


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
        price = self._price()
        version = self.package.__version__
        return f"genai-prices {version} ({price.provider.id} {price.model.id})"

    def cost(self, usage: Usage) -> float:
        """Dollars for the tokens of one call: long requests may have prices of their own."""
        cached = min(usage.cached, usage.input)
        stored = min(usage.stored, usage.input - cached)
        price = self._price(
            input_tokens=usage.input,
            cache_read_tokens=cached,
            cache_write_tokens=stored,
            output_tokens=usage.output,
        )
        return float(price.total_price)

    def most(self, usage: Usage) -> float:
        """The dearest of: nothing, everything read from, everything written to the cache."""
        plain = Usage(1, usage.input, usage.output)
        cached, stored = replace(plain, cached=plain.input), replace(plain, stored=plain.input)
        return max(map(self.cost, (plain, cached, stored)))

    def _price(self, **tokens: int) -> Any:  # noqa: ANN401 - the package's
        used = self.package.Usage(**tokens)
        return self.package.calc_price(
            used, self.model, genai_request_timestamp=self.at, **self.seller
        )


Tariff: TypeAlias = Price | Listed
"""What calls to one model cost."""


def listed(model: str, **seller: str) -> Listed | None:
    """The model's price on the list; None if the package is not there or does not know it."""
    if not has_list():
        return None
    price = Listed(model=model, seller=seller, at=_now(), package=_package())
    try:
        price.most(Usage(1, _MILLION, _MILLION))
    except (LookupError, ValueError):
        return None
    return price


def has_list() -> bool:
    return find_spec(PACKAGE) is not None


@cache
def _package() -> ModuleType:
    """Imported when first asked; it takes a quarter of a second."""
    return importlib.import_module(PACKAGE)


@cache
def _now() -> datetime:
    """One moment for the whole process."""
    return datetime.now(timezone.utc)
