"""The trained document: its body, its protected regions, the further files of a package."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

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
    return _PATH.fullmatch(path) is not None


def ordered(references: Iterable[Reference]) -> tuple[Reference, ...]:
    """The references of a package by path, each path once, whatever its capitals."""
    kept = tuple(sorted(references, key=lambda reference: reference.path))
    names = [reference.path.lower() for reference in kept]
    if twice := [
        reference.path for reference, name in zip(kept, names, strict=True) if names.count(name) > 1
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


RegionKind: TypeAlias = Literal["guidance", "notes"]

_MARKS: dict[RegionKind, tuple[str, str]] = {
    "guidance": ("<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->"),
    "notes": ("<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->"),
}
_ANY_MARK = re.compile(r"<!--\s*(?:SLOW_UPDATE|APPENDIX)_(?:START|END)\s*-->")
NOTES_HEADING = "## Execution Notes Appendix"
_BULLET = re.compile(r"\s{0,3}[-*+][ \t]+(?=\S)")
_FRONT = re.compile(r"\A---\r?\n.*?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Text:
    """Body text: what edits may change."""

    text: str

    @property
    def words(self) -> str:
        return self.text.strip()


@dataclass(frozen=True, slots=True)
class Region:
    """A protected region; `text` is everything between its marks, byte for byte."""

    kind: RegionKind
    text: str

    def render(self) -> str:
        start, end = _MARKS[self.kind]
        return f"{start}{self.text}{end}"


Part: TypeAlias = Text | Region


@dataclass(frozen=True, slots=True)
class Skill:
    """A document in parts. Every way to make one keeps `Skill.parse(s.render()) == s`."""

    front: str = ""
    """YAML front matter with its fences, byte for byte."""
    parts: tuple[Part, ...] = ()
    references: tuple[Reference, ...] = ()
    """The further files of a package, by path; a harness with tools can offer them one by one."""

    @classmethod
    def parse(cls, document: str) -> Skill:
        """Read a document, with or without regions; `parse(t).render() == t` for every `t`."""
        document, references = split_references(document)
        found = _FRONT.match(document)
        front = found[0] if found and not _ANY_MARK.search(found[0]) else ""
        parts: list[Part] = []
        rest = document[len(front) :]
        while mark := _ANY_MARK.search(rest):
            region, after = _take_region(rest, mark)
            parts += [Text(rest[: mark.start()]), region]
            rest = after
        return cls.of(front, [*parts, Text(rest)], references)

    @classmethod
    def of(cls, front: str, parts: Iterable[Part], references: Iterable[Reference] = ()) -> Skill:
        """Put parts together in canonical form: no empty text, no two texts side by side."""
        kept: list[Part] = []
        for part in parts:
            last = kept[-1] if kept else None
            if isinstance(part, Text) and isinstance(last, Text):
                kept[-1] = Text(last.text + part.text)
            elif part != Text(""):
                kept.append(part)
        regions = [part for part in kept if isinstance(part, Region)]
        for kind, (start, _) in _MARKS.items():
            if sum(region.kind == kind for region in regions) > 1:
                raise SkillError(f"the skill has more than one {start} region")
        files = ordered(references)
        for file in files:
            if mark := _ANY_MARK.search(file.text):
                raise SkillError(f"{file.path} has a region mark {mark[0]!r}: only SKILL.md may")
        return cls(front, tuple(kept), files)

    def render(self) -> str:
        """The whole skill as one text, references after the document: what an agent reads."""
        pieces = [part.text if isinstance(part, Text) else part.render() for part in self.parts]
        pieces += [reference.render() for reference in self.references]
        return self.front + "".join(pieces)

    @property
    def files(self) -> dict[str, str]:
        """The text of each file by its path: `SKILL.md` and the reference files of a package."""
        references = {reference.path: reference.text for reference in self.references}
        return {MAIN: self.main.render(), **references}

    @property
    def main(self) -> Skill:
        """The document alone, without references: SKILL.md."""
        return replace(self, references=())

    def with_parts(self, parts: Iterable[Part]) -> Skill:
        """The same skill with another document; front matter and references stay."""
        return Skill.of(self.front, parts, self.references)

    def with_reference(self, reference: Reference) -> Skill:
        """The same skill with this file in place of the one of its path, or as a new one."""
        others = [other for other in self.references if other.path != reference.path]
        return Skill.of(self.front, self.parts, [*others, reference])

    @property
    def digest(self) -> str:
        """Name of this exact content, short enough for a file name."""
        return hashlib.sha256(self.render().encode()).hexdigest()[:16]

    @property
    def body(self) -> str:
        """All text outside front matter and regions."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def guidance(self) -> str:
        """What the slow update wrote, without surrounding blank lines."""
        return self._region("guidance").strip()

    def with_guidance(self, guidance: str) -> Skill:
        """Replace the slow-update region in place, or add it at the end of the document."""
        return self._with_region(Region("guidance", f"\n{scrub(guidance).strip()}\n"))

    @property
    def notes(self) -> tuple[str, ...]:
        """The reminders in the appendix region, each on one line."""
        return _read_notes(self._region("notes"))[1]

    def with_notes(self, notes: Sequence[str]) -> Skill:
        """Replace the reminders in the appendix region, or add it at the end of the document.

        What else stands in the region stays in front of them. A skill without reminders that is
        given none stays as it is.
        """
        kept = [line for note in notes if (line := " ".join(scrub(note).split()))]
        if kept == list(self.notes):
            return self
        lead = scrub(_read_notes(self._region("notes"))[0]).strip() or NOTES_HEADING
        listed = "".join(f"\n- {note}" for note in kept)
        return self._with_region(Region("notes", f"\n{lead}\n{listed}\n"))

    def _with_region(self, region: Region) -> Skill:
        kinds = [part.kind if isinstance(part, Region) else "" for part in self.parts]
        if region.kind in kinds:
            at = kinds.index(region.kind)
            return self.with_parts([*self.parts[:at], region, *self.parts[at + 1 :]])
        document = self.main.render()
        gap = "" if not document or document.endswith("\n\n") else "\n"
        gap += "" if not document or document.endswith("\n") else "\n"
        return self.with_parts([*self.parts, Text(gap), region, Text("\n")])

    def with_body(self, body: str) -> Skill:
        """Another body between the same front matter and the same regions.

        It stands where the words of the old one began: a region before them stays before it, every
        other region follows it.
        """
        words = scrub(body).replace("\r\n", "\n").strip().replace("\n", self.newline)
        if self.front and words.startswith(self.front.strip()):
            words = words[len(self.front.strip()) :].strip()
        if words == self.body.strip():
            return self
        parts = list(self.parts)
        worded = [at for at, part in enumerate(parts) if isinstance(part, Text) and part.words]
        if not worded:
            gap = self.newline * (2 if parts and isinstance(parts[0], Region) else 1)
            return self._with_text([Text(words + gap), *parts])
        first = worded[0]
        for at in worded[1:]:
            parts[at] = Text(self.newline * (1 if at + 1 == len(parts) else 2))
        old = parts[first].text
        before, after = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
        if first + 1 < len(parts) and "\n" not in after:
            after = self.newline * 2
        parts[first] = Text(before + words + after)
        return self._with_text(parts)

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.front + self.body else "\n"

    def _with_text(self, parts: Iterable[Part]) -> Skill:
        """Other parts after the same front matter; text that looks like front matter is none."""
        unfinished = self.front and not self.front.endswith("\n")
        front = self.front + (self.newline if unfinished else "")
        made = Skill.of(front, parts, self.references)
        if Skill.parse(made.render()) == made:
            return made
        return made.with_parts([Text(self.newline), *made.parts])

    def _region(self, kind: RegionKind) -> str:
        for part in self.parts:
            if isinstance(part, Region) and part.kind == kind:
                return part.text
        return ""


def scrub(text: str) -> str:
    """Remove marks, so that no written text can open or close a region or a file."""
    while (less := without_file_marks(_ANY_MARK.sub("", text))) != text:
        text = less
    return text


def _take_region(rest: str, mark: re.Match[str]) -> tuple[Region, str]:
    for kind, (start, end) in _MARKS.items():
        if mark[0] != start:
            continue
        stop = _ANY_MARK.search(rest, mark.end())
        if stop is None or stop[0] != end:
            break
        return Region(kind, rest[mark.end() : stop.start()]), rest[stop.end() :]
    raise SkillError(f"the skill has a stray region mark {mark[0]!r}; marks come in pairs")


def _read_notes(region: str) -> tuple[str, tuple[str, ...]]:
    """What an appendix says apart from its bullets, and the bullets; further lines go with them."""
    lead: list[str] = []
    notes: list[str] = []
    within = False
    for line in region.splitlines():
        if bullet := _BULLET.match(line):
            notes.append(line[bullet.end() :].strip())
            within = True
        elif within and line.strip() and line[0].isspace():
            notes[-1] += f" {line.strip()}"
        else:
            lead.append(line)
            within = False
    return "\n".join(lead).strip(), tuple(notes)
