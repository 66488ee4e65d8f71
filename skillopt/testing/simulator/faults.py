"""Simulated faults, which depend on the request and on how often it was sent before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from skillopt.testing.simulator.chance import unit

Fault: TypeAlias = Literal["429", "500", "drop", "truncate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of requests that meet each kind of trouble.

    Each repetition of a request is a new draw, so a client that tries again gets through.
    """

    rate_429: float = 0.0
    rate_500: float = 0.0
    rate_drop: float = 0.0
    """The connection closes before an answer."""
    rate_truncate: float = 0.0
    """The connection closes in the middle of the answer."""
    retry_after: float = 1.0
    """Seconds that a 429 asks to wait."""
    seed: int = 0

    def strike(self, digest: str, time: int) -> Fault | None:
        """What befalls the request with this digest when it comes for the `time`-th time."""
        draw = unit(self.seed, "fault", digest, time)
        rates: tuple[tuple[Fault, float], ...] = (
            ("429", self.rate_429),
            ("500", self.rate_500),
            ("drop", self.rate_drop),
            ("truncate", self.rate_truncate),
        )
        for fault, rate in rates:
            if draw < rate:
                return fault
            draw -= rate
        return None
