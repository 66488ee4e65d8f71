"""Pythons that code of an agent is run with, in a sandbox."""

from __future__ import annotations

from pathlib import Path

from skillopt.errors import ConfigError


def python_folders(prefix: Path) -> list[Path]:
    """The folders that a sandbox has to show: a virtual environment, and what it is made from.

    Raises `ConfigError` where they would show the user's files, too.
    """
    found = dict.fromkeys((prefix, (prefix / "bin/python").resolve().parent.parent))
    for folder in found:
        if Path.cwd().is_relative_to(folder) or Path.home().is_relative_to(folder):
            raise ConfigError(
                f"code of the target would see all of {folder}, where {prefix}/bin/python needs "
                "it; use a Python in a folder of its own, such as that of a virtual environment"
            )
    return list(found)
