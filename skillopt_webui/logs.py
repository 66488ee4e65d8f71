"""What the processes have written that were started from a page: a file for each run."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

LOGS: Final = ".skillopt-web"
"""In the folder of runs."""


def run_id(root: Path, folder: Path) -> str:
    """A name for addresses: readable, and never a path."""
    try:
        inside = folder.relative_to(root).as_posix()
    except ValueError:
        inside = folder.as_posix()
    words = re.sub(r"[^a-z0-9]+", "-", inside.lower()).strip("-")[-40:].strip("-")
    return f"{words or 'run'}-{hashlib.sha256(os.fsencode(inside)).hexdigest()[:8]}"


def log_of(root: Path, folder: Path) -> Path:
    return root / LOGS / f"{run_id(root, folder)}.log"


def launched(root: Path) -> list[Path]:
    """Directories of runs that were launched from a page, whether they have begun or not."""
    try:
        logs = {entry.name for entry in os.scandir(root / LOGS)}
        folders = [root / entry.name / "run" for entry in os.scandir(root) if entry.is_dir()]
    except OSError:
        return []
    return [folder for folder in folders if log_of(root, folder).name in logs]


def last_error(log: Path) -> str:
    """The error that ended the last command; empty if it told none."""
    errors = [line for line in _said(log) if line.startswith("error: ")]
    return errors[-1].removeprefix("error: ")[:400] if errors else ""


def last_words(log: Path) -> str:
    """Why the last command ended: its error, or the last line that it wrote."""
    return last_error(log) or "".join(_said(log)[-1:])[:400] or "it said nothing"


def _said(log: Path) -> list[str]:
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8_000))
        said = file.read().decode("utf-8", "replace").rpartition("\n$ ")[2].splitlines()
        return [line.strip() for line in said[1:] if line.strip()]
    return []
