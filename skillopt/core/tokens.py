"""A rough estimate of the number of tokens of a text."""

from __future__ import annotations

from math import ceil

BYTES = 4
"""UTF-8 bytes of a token, on average over languages."""


def estimate(text: str) -> int:
    """About how many tokens a text has; texts joined never count more than the texts alone."""
    return ceil(len(_encoded(text)) / BYTES)


def head(text: str, tokens: int) -> str:
    """The longest beginning of at most so many tokens, in whole characters."""
    return _encoded(text)[: max(0, tokens) * BYTES].decode("utf-8", "ignore")


def tail(text: str, tokens: int) -> str:
    """The longest end of at most so many tokens, in whole characters."""
    encoded = _encoded(text)
    return encoded[max(0, len(encoded) - max(0, tokens) * BYTES) :].decode("utf-8", "ignore")


def _encoded(text: str) -> bytes:
    # Half a surrogate pair has no UTF-8; it must be countable all the same.
    return text.encode("utf-8", "surrogatepass")
