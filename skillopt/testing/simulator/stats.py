"""What the simulator was asked and what it answered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """Counters of one simulator. Only the simulator changes them."""

    requests: int = 0
    """Chat completions that arrived, whatever became of them."""
    marked: int = 0
    in_flight: int = 0
    max_concurrency: int = 0
    abandoned: int = 0
    """Requests whose client was gone before the answer."""
    replies: Counter[str] = field(default_factory=Counter[str])
    """Complete answers by what was asked for."""
    refused: Counter[str] = field(default_factory=Counter[str])
    """Answers withheld, by reason: a fault, a wrong key, a bad request."""
    completed: Counter[str] = field(default_factory=Counter[str])
    """Complete answers by digest of the request body."""

    @property
    def since_mark(self) -> int:
        """Requests that arrived after the last mark."""
        return self.requests - self.marked

    @property
    def repeated(self) -> dict[str, int]:
        """Request bodies that were answered completely more than once."""
        return {digest: count for digest, count in self.completed.items() if count > 1}

    def to_json(self) -> dict[str, object]:
        """All counters, as `GET /sim/stats` shows them."""
        return {
            "simulation": True,
            "requests": self.requests,
            "since_mark": self.since_mark,
            "in_flight": self.in_flight,
            "max_concurrency": self.max_concurrency,
            "abandoned": self.abandoned,
            "replies": dict(self.replies),
            "refused": dict(self.refused),
            "completed": dict(self.completed),
            "repeated": self.repeated,
        }
