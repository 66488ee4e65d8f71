"""The reference files of a skill package, and their representation in one text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from skillopt.errors import SkillError

MAIN = "SKILL.md"
"""The file that an agent reads first; a skill without references is this file alone."""
FOLDER = "references"
MOST = 50
"""Files that a package may have beside SKILL.md."""

_PATH = re.compile(rf"{FOLDER}/[A-Za-z0-9][A-Za-z0-9_.-]{{0,95}}\.md")
_MARK = re.compile(rf"<!-- (?:END OF )?FILE {FOLDER}/\S* -->")
_OPENING = re.compile(rf"\n<!-- FILE ({FOLDER}/\S*) -->\n")


@dataclass(frozen=True, slots=True)
class Reference:
    """A file under `references/`: plain text, all of it open to edits."""

    path: str
    """`references/NAME.md`, with `/` on every system; no other path can be made."""
    text: str

    def __post_init__(self) -> None:
        """Refuse a path that leads elsewhere, and a text that would end the file early."""
        if not is_reference(self.path):
            raise SkillError(
                f"{self.path!r} is no file of a skill package: its files are {MAIN} and "
                f"{FOLDER}/NAME.md, with a NAME of letters, digits, '_', '-' and '.'"
            )
        if mark := _MARK.search(self.text):
            raise SkillError(f"{self.path} holds the mark {mark[0]!r}, which begins or ends a file")

    def render(self) -> str:
        """The file between its marks, as it stands in the whole text."""
        return f"\n<!-- FILE {self.path} -->\n{self.text}<!-- END OF FILE {self.path} -->\n"


def is_reference(path: str) -> bool:
    """Whether a file of a package may have this path."""
    return _PATH.fullmatch(path) is not None


def ordered(references: Iterable[Reference]) -> tuple[Reference, ...]:
    """The references of a package by path, each path once, whatever its capitals."""
    kept = tuple(sorted(references, key=lambda each: each.path))
    names = [each.path.lower() for each in kept]
    if twice := [
        each.path for each, name in zip(kept, names, strict=True) if names.count(name) > 1
    ]:
        raise SkillError(f"the skill has {' and '.join(twice)}: file names must differ")
    if len(kept) > MOST:
        raise SkillError(f"the skill has {len(kept)} reference files; at most {MOST} are allowed")
    return kept


def split_references(whole: str) -> tuple[str, tuple[Reference, ...]]:
    """SKILL.md and the references in one text; what `render` wrote comes back byte for byte."""
    opening = _OPENING.search(whole)
    main, at = whole, len(whole)
    references: list[Reference] = []
    while opening:
        closing = f"<!-- END OF FILE {opening[1]} -->\n"
        stop = whole.find(closing, opening.end())
        if stop < 0:
            break
        if not references:
            main = whole[: opening.start()]
        references.append(Reference(opening[1], whole[opening.end() : stop]))
        at = stop + len(closing)
        opening = _OPENING.match(whole, at)
    if stray := _MARK.search(main) or _MARK.search(whole, at):
        raise SkillError(
            f"the skill has a stray file mark {stray[0]!r}; "
            "marks come in pairs, each on a line of its own"
        )
    if at < len(whole):
        raise SkillError(f"the skill has text after {references[-1].path}, which is in no file")
    if tuple(references) != ordered(references):
        raise SkillError("the files of the skill must stand in alphabetical order")
    return main, tuple(references)


def without_file_marks(text: str) -> str:
    """The text with all file marks taken out; what that brings together may be one again."""
    return _MARK.sub("", text)
