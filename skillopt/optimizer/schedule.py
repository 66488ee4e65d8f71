"""Learning rates: how many proposals a step may use. `step` counts from 1 to `total`."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi


def unbounded(step: int, total: int) -> None:
    """No rate: everything proposed is used."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    high: int

    def __call__(self, step: int, total: int) -> int:
        """The rate."""
        return self.high


@dataclass(frozen=True, slots=True)
class Linear:
    """From high to low in a straight line."""

    high: int
    low: int

    def __call__(self, step: int, total: int) -> int:
        """The rate; a single step is made at full rate."""
        if total <= 1:
            return self.high
        return max(self.low, round(self.high + (self.low - self.high) * step / total))


@dataclass(frozen=True, slots=True)
class Cosine:
    """From high to low, slowly at both ends."""

    high: int
    low: int

    def __call__(self, step: int, total: int) -> int:
        """The rate; a single step is made at full rate."""
        if total <= 1:
            return self.high
        swing = (1 + cos(pi * step / total)) / 2
        return max(self.low, round(self.low + (self.high - self.low) * swing))
