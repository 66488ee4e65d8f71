"""Credentials for a server: none, a key, or a token that is renewed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skillopt.errors import ModelError

SECRET_LENGTH = 8
"""What is shorter is a placeholder such as `EMPTY`, not a secret."""
_SHOWN = "[key]"
_EARLY = 300.0
"""Seconds before its end at which a token is renewed."""


class Credentials(Protocol):
    """Opens a server's door."""

    async def headers(self) -> Mapping[str, str]:
        """What goes with the next request."""
        ...

    def hide(self, text: str) -> str:
        """The text without the secret."""
        ...


@dataclass(frozen=True, slots=True)
class Key:
    """A key that stays; None for a server that wants none."""

    secret: str | None = field(default=None, repr=False)
    header: str = "Authorization"
    scheme: str = "Bearer "

    async def headers(self) -> Mapping[str, str]:
        """The key in its header."""
        return {} if self.secret is None else {self.header: f"{self.scheme}{self.secret}"}

    def hide(self, text: str) -> str:
        """The text without the key."""
        return _hidden(text, self.secret)


@dataclass(frozen=True, slots=True)
class Token:
    """A secret for a while."""

    secret: str = field(repr=False)
    expires: float
    """Seconds since the epoch."""


@dataclass(slots=True)
class Tokens:
    """Bearer tokens, each fetched once and renewed before it ends."""

    fetch: Callable[[], Awaitable[Token]] = field(repr=False)
    clock: Callable[[], float] = time.time
    _token: Token | None = field(default=None, repr=False)
    _renew_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def headers(self) -> Mapping[str, str]:
        """A token that is good for a while yet."""
        if self._token is None or self.clock() >= self._renew_at:
            async with self._lock:
                if self._token is None or self.clock() >= self._renew_at:
                    await self._renew()
        return {"Authorization": f"Bearer {self._token.secret}"} if self._token else {}

    def hide(self, text: str) -> str:
        """The text without the token."""
        return _hidden(text, self._token.secret if self._token else None)

    async def _renew(self) -> None:
        try:
            token = await self.fetch()
        except ModelError:
            # What may pass is no reason to stop while the old token still opens the door.
            if self._token is None or self.clock() >= self._token.expires:
                raise
            return
        now = self.clock()
        left = token.expires - now
        self._token, self._renew_at = token, now + max(left - _EARLY, left / 2)


def _hidden(text: str, secret: str | None) -> str:
    if secret is None or len(secret) < SECRET_LENGTH:
        return text
    text = text.replace(secret, _SHOWN)
    if len(secret) < 2 * SECRET_LENGTH:
        return text
    return _without_parts(text, secret)


def _without_parts(text: str, secret: str) -> str:
    """The text without any piece of a long secret, as servers echo the start or end of a key."""
    hidden: set[int] = set()
    last = len(secret) - SECRET_LENGTH
    for piece in {secret[at : at + SECRET_LENGTH] for at in range(last + 1)}:
        at = text.find(piece)
        while at >= 0:
            hidden.update(range(at, at + SECRET_LENGTH))
            at = text.find(piece, at + 1)
    return "".join(
        _SHOWN if at in hidden and at - 1 not in hidden else "" if at in hidden else character
        for at, character in enumerate(text)
    )
