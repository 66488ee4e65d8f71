"""Makes the folder in which an agent works, and reads out what it has left there.

Whatever lies in such a folder was made by a program that nobody vouches for: links, pipes, names
that are no text, folders without end. Nothing here follows a link or waits for a pipe.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import Final

from skillopt.core.episode import LeftFiles, Workspace, check_inside
from skillopt.core.temporary import swept

_DEEPEST: Final = 100
"""Folders within folders that are looked into."""
_MOST_FILES: Final = 10_000
"""Files that are read out or named as left out."""


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
    for number, (name, path) in enumerate(sorted(_matching(folder, workspace.collect))):
        if number == _MOST_FILES:
            left_out[_told(name)] = f"it and all after it: more than {_MOST_FILES:,} files"
            break
        found = _read(path, workspace, room)
        if _told(name) != name:
            left_out[_told(name)] = "its name is not UTF-8"
        elif isinstance(found, str):
            left_out[name] = found
        else:
            files[name] = found
            room -= len(found)
    return LeftFiles(files, left_out)


def _told(name: str) -> str:
    """A name that can be written down, whatever bytes it has."""
    return name.encode("utf-8", "backslashreplace").decode()


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


def used_disk(folder: Path) -> tuple[int, int]:
    """How many files and folders there are, and their bytes on the disk, as far as is looked."""
    count = used = 0
    levels = [(folder, 0)]
    while levels:
        place, depth = levels.pop()
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                count += 1
                with suppress(OSError):
                    used += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False) and depth < _DEEPEST:
                    levels.append((place / entry.name, depth + 1))
    return count, used


def read_inside(folder: Path, path: str, most: int) -> bytes:
    """A file below a folder, with no link on the way.

    Raises:
        OSError: It is not there, or not a regular file.
        ValueError: The path leads elsewhere, or the file has more than so many bytes.
    """
    with _opened(folder, path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > most:
            raise ValueError(f"{path} has {size:,} bytes; at most {most:,} can be read at once")
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(most)


def write_inside(folder: Path, path: str, content: bytes, owner: int | None = None) -> None:
    """Make a file below a folder, or replace its content; raises as `read_inside` does."""
    with _opened(folder, path, os.O_WRONLY | os.O_CREAT, owner) as descriptor:
        os.ftruncate(descriptor, 0)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)


@contextmanager
def _opened(
    folder: Path, path: str, flags: int, owner: int | None = None
) -> Generator[int, None, None]:
    check_inside(path)
    *above, name = PurePosixPath(path).parts
    level = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in above:
            level = _descended(level, part, owner if flags & os.O_CREAT else None, flags)
        # A pipe that nobody reads would keep us waiting.
        safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, safe, 0o644, dir_fd=level)
    finally:
        os.close(level)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        if flags & os.O_CREAT and owner is not None:
            os.fchown(descriptor, owner, owner)
        yield descriptor
    finally:
        os.close(descriptor)


def _descended(level: int, part: str, owner: int | None, flags: int) -> int:
    """The folder of this name in an open one, which is closed; made where files are made."""
    try:
        if flags & os.O_CREAT:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=level)
                if owner is not None:
                    os.chown(part, owner, owner, dir_fd=level, follow_symlinks=False)
        return os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=level)
    finally:
        os.close(level)


@contextmanager
def temporary_folder() -> Generator[Path, None, None]:
    """A folder for one sandbox, removed in the end, even if we are killed."""
    with swept("sandbox") as prefix:
        folder = Path(mkdtemp(prefix=prefix))
        try:
            yield folder
        finally:
            with suppress(OSError):
                remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove the folder of a sandbox, however deep the program has nested its own.

    Folders in folders are moved up first: neither paths nor the number of open files grow.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        numbers = map(str, count())
        while names := os.listdir(top):  # noqa: PTH208 - of the open folder
            for name in names:
                _remove_entry(top, name, numbers)
    finally:
        os.close(top)
    folder.rmdir()


def _remove_entry(top: int, name: str, numbers: Iterator[str]) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)  # the program may have taken our permission away
    level = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        with os.scandir(level) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.name, 0o700, dir_fd=level)
                    os.rename(entry.name, next(numbers), src_dir_fd=level, dst_dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=level)
    finally:
        os.close(level)
    os.rmdir(name, dir_fd=top)


def give_away(folder: Path, owner: int | None) -> None:
    """Make everything in a folder that we have filled the property of a user."""
    if owner is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, owner)
