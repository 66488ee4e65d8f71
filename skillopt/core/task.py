"""Tasks and their right answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True)
class Task:
    """One item of an environment. Harnesses never see it: they see the episode opened from it."""

    id: str
    kind: str = "default"
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    """Private to the environment: question, reference answers, file names, seeds. JSON values."""
    where: str = field(default="", compare=False)
    """Where the user finds it, such as `tickets.csv:12`, if it has no id of the user's."""

    @property
    def told(self) -> str:
        """What to call it in front of the user."""
        return short_place(self.where) or self.id

    @property
    def digest(self) -> str:
        """Name of this exact content."""
        text = json.dumps([self.id, self.kind, self.data], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def short_place(where: str) -> str:
    """A place without the folders that all items share: `val/items.jsonl:12`."""
    return "/".join(where.replace("\\", "/").rsplit("/", 2)[-2:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """The right answer to a task. For checks of data and scorer; no harness gets to see it."""

    answers: tuple[str, ...]
    """Acceptable answers; with options, the text of the right one."""
    options: tuple[str, ...] = ()
    right: int | None = None
    """Which of the options is right."""
    reply: str | None = None
    """A reply that deserves full marks, as an agent would write it; None where none is known."""
    quoted: bool = False
    """Whether the brief is meant to hold the answer: it is to be found in a text."""
