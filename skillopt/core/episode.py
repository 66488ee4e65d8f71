"""Values of an episode beyond its texts: further turns, results of tools, a workspace, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

from skillopt.core.chat import Image

EpisodeNeed: TypeAlias = Literal["images", "tools", "turns", "workspace"]
"""What an episode may need from a harness beyond text."""
ReachedLimit: TypeAlias = Literal["", "turns", "seconds", "tokens", "context"]
"""`context`: of the model, which the conversation no longer fits into."""

MAX_FILE_BYTES: Final = 1_000_000
MAX_BYTES: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class NextTurn:
    """What the agent is told after a reply."""

    text: str
    fresh: bool = False
    """Whether it says all that is needed, so that what was said before is not sent again."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLimits:
    """The most that one attempt may take; None: no limit of the episode."""

    turns: int | None = None
    """Requests to the model."""
    seconds: float | None = None
    tokens: int | None = None
    """Input and output tokens of all requests together."""

    def __post_init__(self) -> None:
        limits = {"turns": self.turns, "seconds": self.seconds, "tokens": self.tokens}
        for name, limit in limits.items():
            if limit is not None and not limit > 0:
                raise ValueError(f"a limit on {name} should be above 0, not {limit!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folder in which an agent works: files to put in, and which files to read out.

    Paths are relative, with `/`, and stay inside of the folder.
    """

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that are there when the agent starts, by path."""
    collect: tuple[str, ...] = ()
    """Patterns of the files that are read out after the attempt: `report.md`, `out/*.csv`; `*` also
    matches `/`."""
    max_file_bytes: int = MAX_FILE_BYTES
    """A larger file is not read out."""
    max_bytes: int = MAX_BYTES
    """No more than this is read out altogether."""

    def __post_init__(self) -> None:
        for path in (*self.files, *self.collect):
            check_inside(path)


@dataclass(frozen=True, slots=True)
class LeftFiles:
    """What was read out of a workspace."""

    files: Mapping[str, bytes]
    left_out: Mapping[str, str]
    """Files that match a pattern and were not read, each with the reason."""


def check_inside(path: str) -> None:
    """Raise `ValueError` unless this is a relative path that stays inside of a folder."""
    parts = PurePosixPath(path).parts
    plain = path and not path.startswith("/") and "\\" not in path and "\0" not in path
    drive = len(path) > 1 and path[1] == ":"
    if not plain or drive or not parts or ".." in parts:
        raise ValueError(f"{path!r} is not a relative path inside of the workspace")
