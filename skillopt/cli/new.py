"""`skillopt new env`: a new environment of the user's own."""

from __future__ import annotations

from pathlib import Path

from skillopt.api import new_env
from skillopt.cli.render import Screen


def show_new_env(name: str, out: Path | None) -> None:
    made = new_env(name, out)
    code, test, config = (path.name for path in made.files[:3])
    Screen().show(
        f"{made.folder}: environment {made.name}",
        f"  {code}: tasks, instructions and scorer; edit this first",
        f"  {test}: its tests; run them with: cd {made.folder} && python -m pytest "
        "(needs: pip install pytest)",
        f"  {config}: settings; data/ and skill.md are examples to replace",
        f"next: cd {made.folder} && skillopt check {config}",
    )
