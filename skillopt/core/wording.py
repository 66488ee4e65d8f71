"""Words of messages that every package uses."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 task`, `1,200 tokens`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
