"""`skillopt diff`: two skills of a run, line by line."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from rich.text import Text

from skillopt.cli.render import Screen
from skillopt.core.skill import Skill
from skillopt.store.reader import RunReader

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def diff(run: Path, a: str, b: str) -> None:
    """Print the difference."""
    screen = Screen()
    with RunReader(run) as reader:
        old, new = reader.skill(a), reader.skill(b)
    if old == new:
        screen.tell(f"{a} and {b} are the same skill")
        return
    screen.show(changes(old, new, a, b))


def changes(old: Skill, new: Skill, a: str, b: str) -> Text:
    """A coloured unified diff."""
    before, after = old.render().splitlines(), new.render().splitlines()
    if before == after:
        return Text(f"{a} and {b} differ in line endings only")
    text = Text()
    for number, line in enumerate(unified_diff(before, after, a, b, lineterm="", n=2)):
        style = "bold" if number < 2 else _COLOURS.get(line[:1], "")
        text.append(f"{line}\n", style=style)
    text.rstrip()
    return text
