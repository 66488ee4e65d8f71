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
    """One task of an environment. A harness never sees it, only the episode opened from it."""

    id: str
    kind: str = "default"
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    """Private data of the environment: question, right answers, file names. JSON values."""
    where: str = field(default="", compare=False)
    """File and line, such as `tickets.csv:12`, if the data has no id for it."""

    @property
    def told(self) -> str:
        """Its name in messages: file and line, or the id."""
        return short_place(self.where) or self.id

    @property
    def digest(self) -> str:
        text = json.dumps([self.id, self.kind, self.data], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def short_place(where: str) -> str:
    """A place without the folders that all items share: `val/items.jsonl:12`."""
    return "/".join(where.replace("\\", "/").rsplit("/", 2)[-2:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """The right answer to a task, for checks of data and scorer. No harness sees it."""

    answers: tuple[str, ...]
    """Acceptable answers; with options, the text of the right one."""
    options: tuple[str, ...] = ()
    right: int | None = None
    """Index of the right option."""
    reply: str | None = None
    """A reply of an agent that gets full marks; None if none is known."""
    quoted: bool = False
    """Whether the task text contains the answer by design."""
