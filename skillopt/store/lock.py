"""One writer per run directory, and only in directories that are ours."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from skillopt.core.paths import not_a_folder
from skillopt.errors import StoreError
from skillopt.store.cache import check_cache_format, is_cache
from skillopt.store.events import check_log_format
from skillopt.store.files import unwritable
from skillopt.store.layout import Layout

_TEXT: Final = (
    "skillopt writes in this folder: it replaces its own files here and continues from them.\n"
    "Without this file, a folder that is not empty is refused.\n"
)
_IGNORED: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", ".gitkeep"})
"""Files that other programs leave in an empty folder."""


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something and that skillopt has not made, and a file.

    A folder of ours is refused where what is written in it would be written somewhere else, and
    where it was written in a format that is not read here.
    """
    if why := not_a_folder(folder):
        raise StoreError(
            f"{why}. Nothing was changed. Choose an empty or new folder (env.out_root)."
        )
    if not folder.is_dir():
        return
    layout = Layout(folder)
    if is_ours(folder):
        check_log_format(layout.events)
        check_cache_format(layout.cache)
        _check_links(folder)
        return
    others = [path.name for path in sorted(folder.iterdir()) if not _ignored(path, layout)]
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise StoreError(
            f"{folder} holds files that skillopt did not make ({shown}), and some of them could "
            "be overwritten. Nothing was changed. Choose an empty or new folder (env.out_root)."
        )


def is_ours(folder: Path) -> bool:
    """Whether skillopt has worked in a folder before, in this version or an earlier one."""
    layout = Layout(folder)
    return layout.mark.is_file() or _is_log(layout.events) or is_cache(layout.cache)


def mark(folder: Path) -> None:
    """Make a folder ours, if it is not yet."""
    path = Layout(folder).mark
    if not path.exists():
        path.write_text(_TEXT, encoding="utf-8")


def unmark_if_empty(folder: Path) -> None:
    """Take the mark away again where it stayed the only thing in the folder."""
    path = Layout(folder).mark
    if list(folder.iterdir()) == [path]:
        path.unlink()


def _check_links(folder: Path) -> None:
    """Refuse links that lead out of a folder, where files would be written through them.

    Other files are replaced as a whole, which replaces a link and not what it leads to.
    """
    layout, root = Layout(folder), folder.resolve()
    below = (Path(place, name) for place, names, _ in os.walk(folder) for name in names)
    for path in (layout.lock, layout.mark, *below):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise StoreError(
                f"{path} is a symbolic link to {path.resolve()}, outside of the run directory, and "
                "files there could be overwritten. Nothing was changed. Remove the link, or put "
                "what it leads to in its place; the whole run directory may be a link."
            )


def _ignored(path: Path, layout: Layout) -> bool:
    if path == layout.lock:  # of a start that was killed at once, or is happening now
        start = _start(path, 4)
        return start is not None and start in {b"", b"pid "}
    return path.name in _IGNORED


def _is_log(path: Path) -> bool:
    # An empty one: a run whose first line was being written, or was deleted as damaged.
    start = _start(path, 5)
    return start is not None and b'{"v":'.startswith(start)


def _start(path: Path, size: int) -> bytes | None:
    """How a regular file begins; None where there is none that can be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return None


class RunLock:
    """Held by the process that writes to a run directory, as `with RunLock(folder): ...`.

    The operating system releases the lock when the process ends, however it ends, so there is no
    stale lock to remove. A folder that was made for the lock and stayed empty goes with it.
    A folder that holds files which skillopt did not make is refused, as is one of ours with a link
    that leads out of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = Layout(folder).lock
        self._descriptor = -1
        self._made_folder = False

    def __enter__(self) -> RunLock:
        """Take the lock, or raise `StoreError` naming who holds it."""
        check_folder(self._folder)
        self._made_folder = not self._folder.exists()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._take()
        except OSError as error:
            raise unwritable(self._path, error) from error
        now = datetime.now(timezone.utc).isoformat(sep=" ", timespec="seconds")
        holder = f"pid {os.getpid()} on {platform.node()} since {now}\n"
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, holder.encode())
            mark(self._folder)
        except OSError as error:
            self._release()
            raise unwritable(self._path, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        # Removed while still held: whoever opens the name from now on makes a new file, and whoever
        # opened it before notices in `_take` that it is gone. Windows keeps a file that is open.
        with suppress(OSError):
            self._path.unlink()
            unmark_if_empty(self._folder)
        os.close(self._descriptor)
        if self._made_folder:
            with suppress(OSError):
                self._folder.rmdir()

    def _take(self) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            if not _try_lock(descriptor):
                holder = os.read(descriptor, 200).decode(errors="replace").strip()
                os.close(descriptor)
                raise StoreError(
                    f"another process is using {self._folder} ({holder or 'just started'}). "
                    "Wait until it ends, stop it, or choose another directory (env.out_root)."
                )
            with suppress(FileNotFoundError):
                if _names(self._path, descriptor):
                    return descriptor
            os.close(descriptor)


def lock_holder(folder: Path) -> str | None:
    """Who writes to this run directory: `pid 12 on host since ...`; None if nobody does.

    Empty for a process that has just started.
    """
    try:
        descriptor = os.open(Layout(folder).lock, os.O_RDWR)
    except OSError:
        return None
    try:
        if _try_lock(descriptor):
            return None
        return os.read(descriptor, 200).decode(errors="replace").strip()
    finally:
        os.close(descriptor)


def at_work(folder: Path) -> bool:
    """Whether a process writes to this run directory at the moment."""
    return lock_holder(folder) is not None


def _names(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    return os.path.samestat(path.stat(), os.fstat(descriptor))


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # A lock on Windows keeps others from reading: take a byte far behind the text.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
