"""Allows only one process per run directory."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from skillopt.errors import StoreError
from skillopt.store.files import unwritable
from skillopt.store.layout import Layout
from skillopt.store.ownership import check_folder, mark, unmark_if_empty


class RunLock:
    """Held by the process that writes to a run directory, as `with RunLock(folder): ...`.

    The operating system releases the lock when the process ends, however it ends, so there is no
    stale lock to remove. A folder that was made for the lock and stayed empty goes with it.
    A folder that holds files which skillopt did not make is refused.
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
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"pid {os.getpid()} on {platform.node()} since {now}\n".encode())
        try:
            mark(self._folder)
        except OSError as error:
            self._release()
            raise unwritable(self._path, error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock."""
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


def at_work(folder: Path) -> bool:
    """Whether a process writes to this run directory at the moment."""
    try:
        descriptor = os.open(Layout(folder).lock, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


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
