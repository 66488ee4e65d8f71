"""Writes a skill to where an agent program looks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from skillopt.core.skill import MAIN, Skill
from skillopt.errors import StoreError
from skillopt.harness.places import place_of, valid_name
from skillopt.store.files import write_atomic
from skillopt.store.layout import Layout
from skillopt.store.packages import read_skill
from skillopt.store.reader import RunReader


def write_for_program(
    source: Path,
    program: str,
    out: Path,
    *,
    name: str,
    description: str,
    home: bool,
    force: bool,
) -> list[Path]:
    """The files of the skill, written below `out`; see `skillopt.api.export_skill`."""
    place = place_of(program)
    skill, called = _skill(source)
    told = name or ("" if "\nname:" in skill.front else called)
    files = place.files(skill, told, description, home=home)
    record = _Record.of(out, files)
    if not force:
        record.refuse_foreign(out, files)
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
    record.write(files)
    return written


@dataclass(frozen=True, slots=True)
class _Record:
    """Beside a skill: which files we wrote there, so that what others wrote stays."""

    file: Path
    known: frozenset[str]
    """Digests of files as we left them."""

    @classmethod
    def of(cls, out: Path, files: Mapping[str, str]) -> _Record:
        main = next(path for path in files if path.endswith(f"/{MAIN}"))
        file = (out / main).with_name(".skillopt-export.json")
        try:
            known = _DIGESTS.validate_json(file.read_bytes())
        except (OSError, ValueError):
            known = []
        return cls(file, frozenset(known))

    def refuse_foreign(self, out: Path, files: Mapping[str, str]) -> None:
        """Raise `StoreError` for a file that would be replaced and that we did not write so."""
        for path, text in files.items():
            try:
                here = (out / path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise StoreError(
                    f"{out / path} cannot be read ({error.strerror}); nothing is replaced"
                ) from error
            if here != text.encode() and _digest(here) not in self.known:
                raise StoreError(
                    f"{out / path} was written or changed by somebody else; nothing is replaced. "
                    "Give the skill another name (--name), or replace it with --force"
                )

    def write(self, files: Mapping[str, str]) -> None:
        digests = sorted(_digest(text.encode()) for text in files.values())
        write_atomic(self.file, _DIGESTS.dump_json(digests) + b"\n")


_DIGESTS = TypeAdapter(list[str])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _skill(source: Path) -> tuple[Skill, str]:
    """The skill, and what it is called where it lies."""
    if source.is_dir() and Layout(source).events.exists():
        with RunReader(source) as reader:
            return reader.skill("best"), valid_name(source.resolve().name)
    file = source if source.is_dir() or source.name != MAIN else source.parent
    return read_skill(source), valid_name(file.resolve().stem)
