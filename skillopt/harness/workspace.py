"""Makes the folder in which an agent works, and reads out what it has left there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from skillopt.core.episode import Workspace

_DEEPEST = 100
"""Folders within folders that are looked into."""


@dataclass(frozen=True, slots=True)
class LeftFiles:
    files: Mapping[str, bytes]
    left_out: Mapping[str, str]
    """Files that match a pattern and were not read, each with the reason."""


def write_files(folder: Path, workspace: Workspace) -> None:
    """Put the files of the workspace into an empty folder."""
    for name, content in workspace.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def read_files(folder: Path, workspace: Workspace) -> LeftFiles:
    """Read the files that the workspace collects, in the order of their paths.

    Links are not followed: what they lead to may lie outside of the folder.
    """
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    room = workspace.max_bytes
    for name, path in sorted(_matching(folder, workspace.collect)):
        found = _read(path, workspace, room)
        if isinstance(found, str):
            left_out[name] = found
        else:
            files[name] = found
            room -= len(found)
    return LeftFiles(files, left_out)


def _read(path: Path, workspace: Workspace, room: int) -> bytes | str:
    """The content of a file, or else the reason why it is left out."""
    try:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            return f"in more than {_DEEPEST} folders"
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_size > workspace.max_file_bytes:
            return f"larger than {workspace.max_file_bytes:,} bytes"
        if status.st_size > room:
            return f"all files together are larger than {workspace.max_bytes:,} bytes"
        return path.read_bytes()
    except OSError as error:  # the program may have taken our permission away
        return f"cannot be read: {error.strerror}"


def _matching(folder: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """All but folders, and those folders that are nested too deeply to look into."""
    levels = [(folder, "", 0)]
    while levels:
        place, within, depth = levels.pop()
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                name = within + entry.name
                if entry.is_dir(follow_symlinks=False) and depth < _DEEPEST:
                    levels.append((place / entry.name, f"{name}/", depth + 1))
                elif any(fnmatchcase(name, pattern) for pattern in patterns):
                    yield name, place / entry.name
