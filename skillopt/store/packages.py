"""Reads and writes skills: one document, or the folder of a package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skillopt.core.intake import SKILL_BYTES, read_file
from skillopt.core.paths import similar_path
from skillopt.core.skill import FOLDER, MAIN, MOST, Reference, Skill
from skillopt.errors import SkillError

BLANK = "blank"
"""What is given instead of a path for an empty document."""
LARGEST = 1_000_000
"""Bytes that all files of a package may have together."""


def read_skill(path: Path) -> Skill:
    """A document from a file, a package from its folder, or an empty document for `blank`.

    Of a folder, SKILL.md and `references/*.md` are read; whatever else lies there is left alone.
    The error names the file at fault.
    """
    if path == Path(BLANK):
        return Skill()
    if not path.exists():
        near = similar_path(path)
        otherwise = f"check the path, or give `{BLANK}` for an empty one"
        hint = f"did you mean {near}?" if near else otherwise
        raise SkillError(f"there is no skill document {path}; {hint} (env.skill_init, --skill)")
    try:
        return _read_package(path) if path.is_dir() else Skill.parse(_text(path, "it"))
    except SkillError as error:
        raise SkillError(f"{path}: {error}") from error
    except OSError as error:
        raise SkillError(f"{error.filename or path}: cannot be read: {error.strerror}") from error


def skill_files(path: Path, skill: Skill) -> Iterator[tuple[Path, bytes]]:
    """Where a skill goes: `X.md` holds all of it, and a package also stands in the folder `X`."""
    yield path, skill.render().encode()
    if skill.references:
        folder = path.with_suffix("")
        yield folder / MAIN, skill.main.render().encode()
        for reference in skill.references:
            yield folder / reference.path, reference.text.encode()


def _read_package(folder: Path) -> Skill:
    if not (folder / MAIN).is_file():
        raise SkillError(f"there is no {MAIN} in this folder; a skill package has one")
    files = sorted(path for path in (folder / FOLDER).glob("*.md") if not path.name.startswith("."))
    if len(files) > MOST:
        raise SkillError(f"{FOLDER}/ holds {len(files)} files; at most {MOST} are allowed")
    _check(folder, [folder / MAIN, *files])
    main = Skill.parse(_text(folder / MAIN, MAIN))
    if main.references:
        raise SkillError(f"{MAIN} holds marks of files; put each file into {FOLDER}/")
    names = [f"{FOLDER}/{path.name}" for path in files]
    references = [Reference(name, _text(folder / name, name)) for name in names]
    return Skill.of(main.front, main.parts, references)


def _check(folder: Path, paths: list[Path]) -> None:
    """Refuse links that lead elsewhere, and more than an agent could read."""
    home = folder.resolve()
    for path in paths:
        if not path.resolve().is_relative_to(home):
            name = path.relative_to(folder).as_posix()
            raise SkillError(
                f"{name} is a link to a file outside the folder; copy the file into the folder"
            )
    size = sum(path.stat().st_size for path in paths)
    if size > LARGEST:
        raise SkillError(
            f"the files have {size:,} bytes; at most {LARGEST:,} are allowed, because an agent "
            "has to read them all"
        )


def _text(path: Path, name: str) -> str:
    try:
        return read_file(path, SKILL_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillError(f"{name} is not UTF-8; save it as UTF-8") from error
