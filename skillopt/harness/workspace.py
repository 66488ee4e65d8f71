"""Makes the folder in which an agent works, and reads out what it has left there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from skillopt.core.episode import Workspace


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
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            left_out[name] = "not a regular file"
        elif status.st_size > workspace.max_file_bytes:
            left_out[name] = f"larger than {workspace.max_file_bytes:,} bytes"
        elif status.st_size > room:
            left_out[name] = f"all files together are larger than {workspace.max_bytes:,} bytes"
        else:
            try:
                files[name] = path.read_bytes()
            except OSError as error:  # the program may have taken our permission away
                left_out[name] = f"cannot be read: {error.strerror}"
            else:
                room -= len(files[name])
    return LeftFiles(files, left_out)


def _matching(folder: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    for place, folders, names in os.walk(folder, followlinks=False):
        links = [entry for entry in folders if Path(place, entry).is_symlink()]
        for entry in (*names, *links):
            path = Path(place, entry)
            name = path.relative_to(folder).as_posix()
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                yield name, path
