"""Reproducible orders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(items: Sequence[T], seed: int) -> list[T]:
    """The items in an order that depends on the seed only."""
    order = list(items)
    random.Random(seed).shuffle(order)  # noqa: S311
    return order
