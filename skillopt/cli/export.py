"""`skillopt export`: writes a skill to where an agent program reads it."""

from __future__ import annotations

from pathlib import Path

from skillopt.api import export_skill
from skillopt.cli.render import Screen


def export(
    source: Path, program: str, out: Path, *, name: str, description: str, home: bool, force: bool
) -> None:
    screen = Screen()
    written = export_skill(
        source, program, out, name=name, description=description, home=home, force=force
    )
    for path in written:
        screen.show(str(path))
