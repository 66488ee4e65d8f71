"""How long calls take: an assumption for servers, a measurement for models on this machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillopt.config.schema import RoleModel
from skillopt.core.costs import NONE, Range
from skillopt.errors import ConfigError
from skillopt.model.local import Tuning
from skillopt.model.weights import CATALOGUE, find

_LATENCY: Final = Range(0.5, 4, 1)
"""Seconds before the answer of a server begins."""
_PACE: Final = Range(1 / 150, 1 / 15, 1 / 50)
"""Seconds for each token of its answer."""
_READ: Final = Range(1 / 100, 1 / 15, 1 / 47)
"""Seconds for each new token of a request, of the first model of the catalogue on two cores.

Measured: 45 to 50 tokens per second on an idle machine, a half to a third of that on a busy one.
"""
_WRITE: Final = Range(1 / 48, 1 / 8, 1 / 23)
"""Seconds for each token of an answer; measured: 22 to 24 tokens per second, likewise."""
_CORES: Final = 2
"""Of the machine that was measured."""
_MOST_CORES: Final = 4
"""Answers are limited by the memory's speed: more cores than this write no faster, about."""


@dataclass(frozen=True, slots=True)
class Speed:
    wait: Range
    """Seconds before an answer begins, however long the request is."""
    read: Range
    """Seconds for each token of a request that is not known from an earlier one."""
    write: Range
    together: int | None
    """Calls that are worked on at the same time; None: all that are sent."""
    cores: int | None = None
    """None: a server, whose machine is not known."""

    def at_once(self, workers: int) -> int:
        return workers if self.together is None else min(workers, self.together)

    def seconds(self, calls: Range, new: Range, answer: Range, workers: int) -> Range:
        """Wall-clock time of so many calls; `new` and `answer`: tokens of each."""
        one = self.wait + new * self.read + answer * self.write
        return _waves(calls, self.at_once(workers)) * one


def speed_of(role: RoleModel) -> Speed:
    if role.backend != "local":
        return Speed(_LATENCY, NONE, _PACE, role.max_concurrency)
    tuning = Tuning.read(role.extra)
    size = _size(role.model) / CATALOGUE[0].size
    read = size * _CORES / tuning.threads
    write = size * _CORES / min(tuning.threads, _MOST_CORES)
    return Speed(NONE, _times(_READ, read), _times(_WRITE, write), tuning.parallel, tuning.threads)


def _size(model: str) -> int:
    """Bytes of the weights; time goes with them. Those of the measured model where unknown."""
    with suppress(OSError, ConfigError):
        return Path(model).stat().st_size if model.endswith(".gguf") else find(model).size
    return CATALOGUE[0].size


def _times(range_: Range, factor: float) -> Range:
    return range_ * Range(factor, factor)


def _waves(calls: Range, at_once: int) -> Range:
    """How many calls follow on each other where so many are under way at a time."""

    def waves(number: float) -> float:
        return number if number < 1 else max(1.0, number / at_once)

    return Range(waves(calls.low), waves(calls.high), waves(calls.expected))
