"""What a call of the program remembers for the place where its errors end up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    """One call of the program. Light, because `--help` makes one too."""

    debug: bool = False
    hide: Callable[[str], str] = str
    """Takes secrets out of a text, once there are any to know of."""
