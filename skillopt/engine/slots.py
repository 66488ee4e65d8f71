"""Limits the number of parallel attempts; speculative ones use idle slots only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType


@dataclass(slots=True)
class WorkerPool:
    """`async with slots` waits for a place, and only for others who do the same.

    Work that nobody has asked for yet takes what is `idle`. It is never waited for: whoever needs
    a place gets it beside such work.
    """

    size: int
    _places: asyncio.Semaphore = field(init=False)
    _busy: int = 0
    """Those who have a place or wait for one."""
    _idle: int = 0
    """Those who took a place because it was idle."""
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """All places are free."""
        self._places = asyncio.Semaphore(self.size)

    async def __aenter__(self) -> None:
        """Wait for a place."""
        self._busy += 1
        try:
            await self._places.acquire()
        except BaseException:
            self._busy -= 1
            self._tell()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the place back."""
        self._places.release()
        self._busy -= 1
        self._tell()

    @asynccontextmanager
    async def idle(self) -> AsyncGenerator[None, None]:
        """Wait for a place that nobody needs at the moment."""
        while self._busy + self._idle >= self.size:
            await self._freed.wait()
        self._idle += 1
        try:
            yield
        finally:
            self._idle -= 1
            self._tell()

    def _tell(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()
