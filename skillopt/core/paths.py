"""Paths as people type them."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path


def similar_path(path: Path) -> Path | None:
    """The file or folder beside it whose name is nearest, where there is none of this name."""
    if path.exists():
        return None
    folder = path.parent
    if not folder.is_dir():
        above = similar_path(folder)
        below = None if above is None else above / path.name
        return below if below is not None and below.exists() else None
    near = get_close_matches(path.name, [each.name for each in folder.iterdir()], n=1)
    return folder / near[0] if near else None
