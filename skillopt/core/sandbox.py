"""What a program in a sandbox may use, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

EndedBy: TypeAlias = Literal["", "seconds", "output", "disk", "memory"]
"""The limit that ended a program; empty: it ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """The most that a program may use."""

    seconds: float = 60.0
    """Wall-clock time."""
    cpu_seconds: float | None = None
    """Of each process; None: as many as `seconds`."""
    memory: int = 2**30
    """Bytes of address space of each process; a process that asks for more gets an error."""
    total_memory: int = 2**32
    """Bytes that all its processes hold together; looked at several times a second."""
    processes: int = 64
    """Processes and threads at a time."""
    open_files: int = 1024
    """Of each process."""
    file_bytes: int = 2**26
    """Size of each file that it writes."""
    disk_bytes: int = 2**30
    """Of all its files together; looked at several times a second."""
    files: int = 100_000
    """Files and folders that may be there, also empty ones; looked at as often."""
    output_bytes: int = 2**20
    """Of standard output, and of standard error."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a limit that allows nothing."""
        for limit in fields(self):
            value: float | None = getattr(self, limit.name)
            if value is not None and not value > 0:
                raise ValueError(f"{limit.name} should be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """What came of a program."""

    status: int
    """As a shell tells it: 128 and the number of the signal, if one ended the program."""
    stdout: str
    stderr: str
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Those that were to be collected."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that were to be collected and were not read, each with the reason."""
    seconds: float
    ended_by: EndedBy = ""
