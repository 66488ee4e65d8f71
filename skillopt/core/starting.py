"""How Python is started with one of our modules, in whatever folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
_CODE: Final = """\
import sys; sys.path = [p for p in sys.path if p] + [{packages!r}]; \
import runpy; runpy.run_module({module!r}, None, "__main__", True)"""


def module_command(module: str) -> list[str]:
    """What `python -m module` means, but modules in the current folder are never imported.

    That folder may be a clone of anything, and `-m` looks there first, even for `yaml`.
    """
    return [sys.executable, "-c", _CODE.format(packages=_PACKAGES, module=module)]
