"""Reproducible randomness: every draw is a hash of its inputs.

So the order and the number of parallel requests never change an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def number(*parts: object) -> int:
    """A number below 2**64 that depends on the parts only."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(str(part).encode())
        digest.update(b"\0")
    return int.from_bytes(digest.digest(), "big")


def unit(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts only."""
    return (number(*parts) >> 11) / 2**53


def pick(options: Sequence[T], *parts: object) -> T:
    """One of the options."""
    return options[number(*parts) % len(options)]
