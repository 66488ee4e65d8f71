"""What the parts of a night give to each other: sessions, tasks, checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Literal, Protocol


class Mood(Enum):
    """What a user's reaction says of the answer before it."""

    NEGATIVE = "neg"
    POSITIVE = "pos"


@dataclass(frozen=True, slots=True)
class Reaction:
    """Words of a user, after an answer, that say whether it was right."""

    mood: Mood
    text: str
    turn: int
    """Which of the user's prompts it is in, from 0; never the first, which is the task itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a user and an agent did together, without secrets: redacted when it was read."""

    id: str
    source: str
    """The name of the source: `claude`, `codex`, ..."""
    project: Path
    """The folder in which the agent worked."""
    started: datetime
    """Aware, in UTC, as all times here."""
    ended: datetime
    prompts: tuple[str, ...]
    """What the user wrote; no commands, injected texts or summaries."""
    answers: tuple[str, ...] = ()
    """The last text of the agent after each prompt; empty where there is none."""
    tools: tuple[str, ...] = ()
    """Names of the tools that were called, in order of their first call."""
    commands: tuple[str, ...] = ()
    """Shell commands that the agent ran, in order."""
    skills: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files that were changed, relative to the project where they are below it."""
    reactions: tuple[Reaction, ...] = ()
    troubles: int = 0
    """Turns that ended with an error of the program, or that the user interrupted."""
    branch: str = ""
    commit: str = ""
    """Where the repository stood, if the program wrote it down."""
    origin: Path | None = None
    """The file or database it was read from."""


class Source(Protocol):
    """Where one agent program keeps its sessions. An entry point of `skillopt_sleep.sources`."""

    name: str

    def found(self) -> bool:
        """Whether the program has left anything here."""
        ...

    def sessions(self, since: datetime | None) -> SessionsRead:
        """Sessions that ended after `since`, oldest first; damaged ones are skipped and told."""
        ...


@dataclass(frozen=True, slots=True)
class SessionsRead:
    sessions: tuple[Session, ...]
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many were left out, by reason: `headless`, `own`, `side chain`, `damaged`, ..."""
    notices: tuple[str, ...] = ()
    """What could not be read, and where: for people."""


Split = Literal["train", "val", "test"]
Outcome = Literal["success", "fail", "mixed", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule of a reference: an operation with its argument, as `contains: "BREAKING"`."""

    op: str
    arg: str | int = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """How an attempt at a task is judged."""

    kind: Literal["exact", "rule", "rubric", "command", "none"]
    text: str = ""
    """The exact answer, the rubric, or the command."""
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MinedTask:
    """A task that came up in sessions, with what is needed to try it again."""

    id: str
    project: Path
    intent: str
    context: str = ""
    system: str = ""
    outcome: Outcome = "unknown"
    reference: Reference
    tags: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    """Ids of all sessions in which it came up."""
    commit: str = ""
    """Where the repository stood when it came up, if that is known."""
    split: Split = "train"
    origin: Literal["real", "dream", "recall"] = "real"
    derived_from: str = ""
    skill_hint: str = ""
    frequency: int = 1
    pain: float = 0.0
    """Negative reactions and retries per session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedFile:
    """A document as a night proposes it. Both texts are whole files."""

    target: str
    """The name by which it is adopted: `skill`, `memory`, or the name of a skill of its own."""
    path: Path
    """Where the document lives."""
    root: Path
    """The folder that it must not leave."""
    before: bytes | None
    """What was read when the night began; none if there was no file."""
    after: bytes
