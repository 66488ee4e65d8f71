"""Checks of paths that users give."""

from __future__ import annotations

from pathlib import Path

from skillopt.core.nearest import nearest

STARTED_IN = "started_in"
"""Beside the settings that a run writes: the folder from which relative paths in them are found."""


def similar_path(path: Path) -> Path | None:
    """The file or folder beside it whose name is nearest, where there is none of this name."""
    if path.exists():
        return None
    folder = path.parent
    if not folder.is_dir():
        above = similar_path(folder)
        below = None if above is None else above / path.name
        return below if below is not None and below.exists() else None
    near = nearest(path.name, sorted(entry.name for entry in folder.iterdir()))
    return folder / near if near else None


def not_a_folder(path: Path) -> str:
    """Why there is no folder of this name and none can be made; blank if nothing is in the way."""
    for place in (path, *path.parents):
        try:
            place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{place} cannot be a folder: {error.strerror}"
        before = "" if place == path else f"{path}: "
        if place.is_symlink() and not place.exists():
            return f"{before}{place} is a symbolic link to {place.readlink()}, where nothing is"
        return "" if place.is_dir() else f"{before}{place} is a file"
    return ""
