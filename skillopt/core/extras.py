"""How to install what an optional part needs."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from shlex import quote

_OURS = "skillopt"


def install_command(extra: str, package: str = _OURS) -> str:
    """A command that installs the packages of an extra, wherever it is typed.

    Our own name on the public package index belongs to another project, so that the packages
    themselves are named.
    """
    if package != _OURS:
        return f"pip install '{package}[{extra}]'"
    return f"pip install {' '.join(map(quote, _requirements(extra))) or quote(f'.[{extra}]')}"


def packages_of(extra: str) -> list[str]:
    """The names of the packages that one of our extras installs."""
    return [re.split(r"[^\w.-]", requirement)[0] for requirement in _requirements(extra)]


def _requirements(extra: str) -> list[str]:
    try:
        listed = requires(_OURS) or []
    except PackageNotFoundError:
        listed = []
    pattern = re.compile(rf"""([^;]+?)\s*;\s*extra\s*==\s*["']{re.escape(extra)}["']\s*""")
    return [found[1] for requirement in listed if (found := pattern.fullmatch(requirement))]
