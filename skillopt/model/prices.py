"""What tokens cost."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.core.chat import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """None: as `input`."""

    def cost(self, usage: Usage) -> float:
        """Dollars for these tokens."""
        cached = min(usage.cached, usage.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (usage.input - cached) * self.input
        return (fresh + cached * cached_price + usage.output * self.output) / _MILLION

    def most(self, usage: Usage) -> float:
        """The most that so many tokens can cost, whatever the provider had cached."""
        dearest = max(self.input, self.cost(Usage(input=_MILLION, cached=_MILLION)))
        return (usage.input * dearest + usage.output * self.output) / _MILLION
