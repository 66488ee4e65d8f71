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
    """What a server asks for before it answers."""

    async def headers(self) -> Mapping[str, str]:
        """What goes with the next request."""
        ...

    def hide(self, text: str) -> str:
        """The text without the secret."""
        ...


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that stays; None for a server that wants none."""

    secret: str | None = field(default=None, repr=False)
    header: str = "Authorization"
    scheme: str = "Bearer "

    async def headers(self) -> Mapping[str, str]:
        return {} if self.secret is None else {self.header: f"{self.scheme}{self.secret}"}

    def hide(self, text: str) -> str:
        return hidden(text, self.secret)


@dataclass(frozen=True, slots=True)
class Token:
    """A secret for a while."""

    secret: str = field(repr=False)
    expires: float
    """Seconds since the epoch."""


@dataclass(slots=True)
class BearerTokens:
    """Bearer tokens, each fetched once and renewed before it ends."""

    fetch: Callable[[], Awaitable[Token]] = field(repr=False)
    clock: Callable[[], float] = time.time
    _token: Token | None = field(default=None, repr=False)
    _renew_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def headers(self) -> Mapping[str, str]:
        token = self._token
        if token is None or self.clock() >= self._renew_at:
            async with self._lock:
                token = self._token
                if token is None or self.clock() >= self._renew_at:
                    token = await self._renewed(token)
        return {"Authorization": f"Bearer {token.secret}"}

    def hide(self, text: str) -> str:
        return hidden(text, self._token.secret if self._token else None)

    async def _renewed(self, old: Token | None) -> Token:
        try:
            token = await self.fetch()
        except ModelError:
            # What may pass is no reason to stop while the old token is still valid.
            if old is None or self.clock() >= old.expires:
                raise
            return old
        now = self.clock()
        left = token.expires - now
        self._token, self._renew_at = token, now + max(left - _EARLY, left / 2)
        return token


def hidden(text: str, secret: str | None) -> str:
    """The text without a secret, and without any piece of a long one.

    Servers echo the start or the end of a key.
    """
    if secret is None or len(secret) < SECRET_LENGTH:
        return text
    text = text.replace(secret, _SHOWN)
    if len(secret) < 2 * SECRET_LENGTH:
        return text
    places: set[int] = set()
    last = len(secret) - SECRET_LENGTH
    for piece in {secret[at : at + SECRET_LENGTH] for at in range(last + 1)}:
        at = text.find(piece)
        while at >= 0:
            places.update(range(at, at + SECRET_LENGTH))
            at = text.find(piece, at + 1)
    return "".join(
        _SHOWN if at in places and at - 1 not in places else "" if at in places else character
        for at, character in enumerate(text)
    )
