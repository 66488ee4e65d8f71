"""Settings for threads, batches and memory of a local model."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

from skillopt.errors import ConfigError

_TOPOLOGY = Path("/sys/devices/system/cpu")


def physical_cores() -> int:
    """Cores that this process may use; two threads on one core only get in each other's way."""
    if sys.platform == "linux":
        allowed = os.sched_getaffinity(0)
        with suppress(OSError):
            siblings = {
                (_TOPOLOGY / f"cpu{number}/topology/thread_siblings_list").read_text()
                for number in allowed
            }
            return max(1, len(siblings))
        return max(1, len(allowed))
    logical = os.cpu_count() or 1
    return max(1, logical // 2) if sys.platform == "win32" else logical


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Settings of an engine. Only `parallel`, `context` and `batch` can change an answer."""

    threads: int = field(default_factory=physical_cores)
    parallel: int = 1
    """Calls that are computed together.

    One: the text depends on the request alone. More: higher throughput on many cores, but the
    numbers of one answer then depend on which others are computed with it, in the last digits;
    where two words are almost equally likely, the text may differ from run to run.
    """
    slots: int = 4
    """Conversations whose beginnings are kept in memory, so that they are not computed again."""
    context: int = 8192
    """Tokens of one conversation, question and answer together."""
    batch: int = 256
    """Tokens of a prompt that are computed at once; a cancelled call ends between two batches."""

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Tuning:
        """From settings called like the fields; those absent or None have their defaults."""
        wanted = {each.name: given.get(each.name) for each in fields(cls)}
        found = {name: _positive(name, it) for name, it in wanted.items() if it is not None}
        return cls(**found)


def _positive(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ConfigError(f"model.local_{name} is {value!r}; give a whole number above zero")
