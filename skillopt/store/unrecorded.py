"""A record for work without moves: an evaluation keeps its attempts, not its story."""

from __future__ import annotations

from skillopt.core.events import Event


class Unrecorded:
    """Keeps nothing."""

    def append(self, event: Event) -> None:
        """Let it pass."""

    def events(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()
