"""How `skillopt-sleep` is started by others: agent programs, schedulers, the dashboard."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from skillopt.core.starting import module_command


def own_command() -> list[str]:
    """What starts `skillopt-sleep` with this Python, in whatever folder.

    It is a whole path, and nothing is imported from the folder in which it is called.
    """
    name = "skillopt-sleep.exe" if sys.platform == "win32" else "skillopt-sleep"
    script = Path(sysconfig.get_path("scripts")) / name
    return [str(script)] if script.is_file() else module_command("skillopt_sleep")
