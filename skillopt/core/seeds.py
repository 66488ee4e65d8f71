"""Reproducible orders and samples."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(items: Sequence[T], seed: int | str) -> list[T]:
    """The items in an order that depends on the seed only."""
    order = list(items)
    random.Random(seed).shuffle(order)  # noqa: S311
    return order


def drawn(items: Sequence[T], weights: Sequence[float], seed: int | str) -> T:
    """One of the items, by their weights; which one depends on the seed only."""
    return random.Random(seed).choices(items, weights)[0]  # noqa: S311


def blocks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """The items in their order, so many at a time."""
    return [items[at : at + size] for at in range(0, len(items), size)]
