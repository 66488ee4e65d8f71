"""Allows writing only to an empty folder, or to one that skillopt has marked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from skillopt.core.paths import not_a_folder
from skillopt.errors import StoreError
from skillopt.store.layout import Layout

_TEXT: Final = (
    "skillopt writes in this folder: it replaces its own files here and continues from them.\n"
    "Without this file, a folder that is not empty is refused.\n"
)
_IGNORED: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", ".gitkeep"})
"""Files that other programs leave in an empty folder."""
_FIRST_PAGE: Final = 4096


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something and that skillopt has not made, and a file."""
    if why := not_a_folder(folder):
        raise StoreError(
            f"{why}. Nothing was changed. Choose an empty or new folder (env.out_root)."
        )
    if not folder.is_dir() or is_ours(folder):
        return
    layout = Layout(folder)
    others = [each.name for each in sorted(folder.iterdir()) if not _ignored(each, layout)]
    if others:
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise StoreError(
            f"{folder} holds files that skillopt did not make ({shown}), and some of them could "
            "be overwritten. Nothing was changed. Choose an empty or new folder (env.out_root)."
        )


def is_ours(folder: Path) -> bool:
    """Whether skillopt has worked in a folder before, in this version or an earlier one."""
    layout = Layout(folder)
    return layout.mark.is_file() or _is_log(layout.events) or _is_cache(layout.cache)


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


def _ignored(path: Path, layout: Layout) -> bool:
    if path == layout.lock:  # of a start that was killed at once, or is happening now
        start = _start(path, 4)
        return start is not None and start in {b"", b"pid "}
    return path.name in _IGNORED


def _is_log(path: Path) -> bool:
    # An empty one: a run whose first line was being written, or was deleted as damaged.
    start = _start(path, 5)
    return start is not None and b'{"v":'.startswith(start)


def _is_cache(path: Path) -> bool:
    start = _start(path, _FIRST_PAGE)
    return start is not None and start.startswith(b"SQLite format 3") and b"rollouts" in start


def _start(path: Path, size: int) -> bytes | None:
    """How a regular file begins; None where there is none that can be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return None
