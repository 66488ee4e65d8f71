"""An event log that stores nothing, for evaluations: only their attempts are cached."""

from __future__ import annotations

from skillopt.core.events import Event


class NullLog:
    """Keeps nothing."""

    def append(self, event: Event) -> None:
        """Let it pass."""

    def events(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()
