"""Checks of what the engine expects from extensions, to be used in their tests."""

from __future__ import annotations


class ContractBroken(AssertionError):
    """An extension does not do what its protocol requires."""


def expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raise `ContractBroken` with the promise that was not kept."""
    if not kept:
        raise ContractBroken(promise)
