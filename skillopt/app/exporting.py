"""Writes a skill to where an agent program looks for it."""

from __future__ import annotations

from pathlib import Path

from skillopt.core.skill import MAIN, Skill
from skillopt.errors import StoreError
from skillopt.harness.places import place_of, valid_name
from skillopt.store.files import write_atomic
from skillopt.store.layout import Layout
from skillopt.store.packages import read_skill
from skillopt.store.reader import RunReader


def write_for_program(
    source: Path, program: str, out: Path, *, name: str, description: str, home: bool
) -> list[Path]:
    """The files of the skill, written below `out`; see `skillopt.api.export_skill`."""
    place = place_of(program)
    skill, called = _skill(source)
    told = name or ("" if "\nname:" in skill.front else called)
    files = place.files(skill, told, description, home=home)
    written: list[Path] = []
    for path, text in files.items():
        target = out / path
        if target.is_symlink() or not target.resolve().is_relative_to(out.resolve()):
            raise StoreError(f"{target} is a link, or lies behind one; nothing is written there")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise StoreError(f"{out} is, or holds, a file where a folder is needed") from None
        write_atomic(target, text.encode())
        written.append(target)
    return written


def _skill(source: Path) -> tuple[Skill, str]:
    """The skill, and what it is called where it lies."""
    if source.is_dir() and Layout(source).events.exists():
        with RunReader(source) as reader:
            return reader.skill("best"), valid_name(source.resolve().name)
    file = source if source.is_dir() or source.name != MAIN else source.parent
    return read_skill(source), valid_name(file.resolve().stem)
