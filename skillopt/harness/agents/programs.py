"""Where a program is installed, what it needs to run elsewhere, and which version it is."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from skillopt.core.intake import read_json

SYSTEM: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where every sandbox finds programs."""
_LOOKED_AT: Final = 256
"""Bytes of a file that may say which interpreter it is for."""
_SAMPLE: Final = 2**20


def interpreter(program: Path, path: str | None) -> Path | None:
    """What runs a script that names its interpreter as `env NAME`; None: it is in the system."""
    words = _first_line(program).split()
    if len(words) < 2 or Path(words[0]).name != "env":
        return None
    found = shutil.which(words[-1], path=path)
    # A script in place of an interpreter chooses one by settings that are not in the sandbox.
    return None if found is None or _first_line(Path(found)) else Path(found).absolute()


def missing_interpreter(program: Path, path: str | None) -> str:
    """The interpreter that a script names and that is not here; empty: it is, or needs none."""
    words = _first_line(program).split()
    if not words:
        return ""
    if Path(words[0]).name != "env" or len(words) < 2:
        return "" if Path(words[0]).exists() else words[0]
    here = shutil.which(words[-1], path=path) or shutil.which(words[-1], path=SYSTEM)
    return "" if here else words[-1]


def _first_line(program: Path) -> str:
    """What follows `#!`; empty: it is no script."""
    with program.open("rb") as file:
        start = file.read(_LOOKED_AT)
    line = start.split(b"\n", 1)[0].decode(errors="replace")
    return line.removeprefix("#!").strip() if line.startswith("#!") else ""


def needed(program: Path, home: Path) -> Iterator[Path]:
    """The files and folders that a program consists of, outside of the system's own.

    A package of npm is found together with those that it needs. Of other programs it is the folder
    that they lie in, unless that is one in which a user keeps other things.
    """
    real = program.resolve()
    if any(real.is_relative_to(place) for place in ("/usr", "/bin", "/sbin")):
        return
    packages = [folder for folder in real.parents if folder.name == "node_modules"]
    here = Path.cwd()
    private = {Path("/tmp"), home, *home.parents, here, *here.parents}  # noqa: S108 - not shown
    if packages:
        yield packages[-1]
    elif real.parent.name == "bin" and real.parent.parent not in private:
        yield real.parent.parent
    elif real.parent not in private:
        yield real.parent
    else:
        yield real


def python() -> tuple[Path, tuple[Path, ...]]:
    """An interpreter for the sandbox, and the folders that it needs there."""
    system = shutil.which("python3", path=SYSTEM)
    if system is not None:
        return Path(system), ()
    own = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    return own, (Path(sys.base_prefix).resolve(),)


@cache
def version(program: Path) -> str:
    """As its package says, or else a digest: another version may give other results."""
    real = program.resolve()
    for folder in list(real.parents)[:4]:
        try:
            package = read_json((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        match package:
            case {"name": str(name), "version": str(number)}:
                return f"{name}@{number}"
            case _:
                pass
    with real.open("rb") as file:
        digest = hashlib.sha256(file.read(_SAMPLE)).hexdigest()[:12]
    return f"{real.name}-{os.path.getsize(real)}-{digest}"  # noqa: PTH202 - of the same file
