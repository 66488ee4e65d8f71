"""`skillopt diff`: a unified diff of two skills of a run."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from rich.text import Text

from skillopt.cli.render import Screen
from skillopt.core.skill import MAIN, Skill
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
    """A coloured unified diff; of packages, file by file."""
    text = Text()
    before, after = _files(old), _files(new)
    for path in dict.fromkeys([*before, *after]):
        tail = f"/{path}" if len(before) + len(after) > 2 else ""
        was, now = before.get(path, "").splitlines(), after.get(path, "").splitlines()
        lines = unified_diff(was, now, f"{a}{tail}", f"{b}{tail}", lineterm="", n=2)
        for number, line in enumerate(lines):
            style = "bold" if number < 2 else _COLOURS.get(line[:1], "")
            text.append(f"{line}\n", style=style)
    text.rstrip()
    return text or Text(f"{a} and {b} differ in line endings only")


def _files(skill: Skill) -> dict[str, str]:
    references = {each.path: each.text for each in skill.references}
    return {MAIN: skill.main.render(), **references}
