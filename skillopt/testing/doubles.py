"""Test doubles that keep everything in memory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from skillopt.core.chat import Reply, Usage
from skillopt.core.rollout import Rollout, Score


@dataclass(slots=True)
class MemoryCache:
    """A `RolloutCache` that is gone with the process. Its fields are there to be looked at."""

    rollouts: dict[str, Rollout] = field(default_factory=dict[str, Rollout])
    replies: dict[str, Reply] = field(default_factory=dict[str, Reply])
    paid: dict[tuple[str, str, str], Usage] = field(
        default_factory=dict[tuple[str, str, str], Usage]
    )
    move: str = ""
    unused: dict[str, str] = field(default_factory=dict[str, str])
    """Prefetched rollouts that nobody has asked for, and the operations that might have."""
    early: set[str] = field(default_factory=set[str])
    """Rollouts made before an operation that is certain to ask for them."""
    _locks: defaultdict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict[str, asyncio.Lock](asyncio.Lock)
    )

    def enter(self, move: str) -> None:
        self.move = move

    async def rollout(
        self,
        key: str,
        make: Callable[[], Awaitable[Rollout]],
        *,
        prefetch_for: str = "",
        certain: bool = False,
    ) -> tuple[Rollout, bool]:
        """The rollout kept under `key`, or make it; kept only if it has a score."""
        async with self._locks[f"rollout/{key}"]:
            if key in self.rollouts:
                if prefetch_for:
                    return self.rollouts[key], True
                ahead = key in self.early or key in self.unused
                self.early.discard(key)
                self.unused.pop(key, None)
                return self.rollouts[key], not ahead
            made = await make()
            if isinstance(made.outcome, Score):
                self.rollouts[key] = made
                if certain:
                    self.early.add(key)
                elif prefetch_for:
                    self.unused[key] = prefetch_for
            return made, False

    async def reply(
        self, key: str, *, role: str, stage: str, make: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """The reply kept under `key`, or make and keep it; an error is kept by nobody."""
        async with self._locks[f"reply/{key}"]:
            if key not in self.replies:
                made = await make()
                self.replies[key] = made
                place = (self.move, role, stage)
                self.paid[place] = self.paid.get(place, Usage()) + made.usage
            return self.replies[key]

    def spent(self) -> Mapping[tuple[str, str, str], Usage]:
        return dict(self.paid)
