"""Checks of what the engine expects from extensions, to be used in their tests."""

from __future__ import annotations

from typing import Protocol


class ContractBroken(AssertionError):
    """An extension does not do what its protocol requires."""


class HasFingerprint(Protocol):
    @property
    def fingerprint(self) -> str: ...


def expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raise `ContractBroken` with the promise that was not kept."""
    if not kept:
        raise ContractBroken(promise)


def check_fingerprint(part: HasFingerprint) -> None:
    """The fingerprint is not empty and does not change."""
    first = part.fingerprint
    expect(bool(first.strip()), "the fingerprint is not blank")
    expect(part.fingerprint == first, "the fingerprint is stable; this one changes")
