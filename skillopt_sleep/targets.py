"""Which files a night may write, and whether each of them may be written safely.

All of it is decided before anything is spent: a link that leads elsewhere, a file with two names, a
name that differs from another only by capitals, a file that is no text.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from skillopt.core.intake import SKILL_BYTES, read_file
from skillopt.core.skill import MAIN, Skill
from skillopt.errors import SkillError
from skillopt.harness.places import PLACES, place_of, valid_name
from skillopt_sleep.documents import Document, new_rule_file, new_skill
from skillopt_sleep.errors import RefusedChange
from skillopt_sleep.settings import Settings
from skillopt_sleep.values import ProposedFile

_DESCRIPTION: Final = (
    "Rules learnt from past sessions in this project. Read it before you begin with any task."
)
_SAME: Final = {"copilot_cli": "copilot", "jsonl": "claude"}
"""Sources of sessions whose agent has another name."""
_MEMORY: Final[Mapping[str, tuple[str, ...]]] = {
    "claude": ("CLAUDE.md", ".claude/CLAUDE.md"),
    "copilot": (".github/copilot-instructions.md",),
    "cursor": (".cursor/rules/{name}.mdc",),
    "gemini": ("GEMINI.md",),
    "qwen": ("QWEN.md",),
}
"""Memory files in a project, the first that exists or else the first; others: AGENTS.md."""
_HOME_MEMORY: Final[Mapping[str, str]] = {
    "copilot": ".copilot/copilot-instructions.md",
    "opencode": ".config/opencode/AGENTS.md",
    "qwen": ".qwen/QWEN.md",
}
_SKILL_NAME: Final = re.compile(r"(?:(?P<plugin>[\w.-]+):)?(?P<name>\w[\w.-]{0,127})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A document that may be written, as it was when it was looked at."""

    name: str
    """By which it is adopted: `skill`, `memory`, or the name of a skill."""
    path: Path
    """The file itself, behind all links."""
    root: Path
    """The folder that it must not leave."""
    before: bytes | None
    blank: bytes = b""
    """What a new file begins with."""

    @property
    def document(self) -> Document:
        return Document.parse(self.blank if self.before is None else self.before)

    def proposed(self, document: Document) -> ProposedFile | None:
        """The changed document to stage; none if nothing changed, so that nothing is staged."""
        after = document.render()
        if after == (self.blank if self.before is None else self.before):
            return None
        return ProposedFile(
            target=self.name, path=self.path, root=self.root, before=self.before, after=after
        )


@dataclass(frozen=True, slots=True)
class Targets:
    agent: str
    skill: Target | None
    memory: Target | None


@dataclass(frozen=True, slots=True)
class SkillLookup:
    """What became of the name of a skill that a session used."""

    name: str
    outcome: Literal["found", "missing", "ambiguous", "rejected"]
    target: Target | None = None
    why: str = ""


def agent_of(settings: Settings, sources: Iterable[str] = ()) -> str:
    """The agent program that is written for: as set, or the first of these sources.

    Raises:
        ConfigError: There is no such program.
    """
    named = settings.agent if settings.agent != "auto" else next(iter(sources), "claude")
    return place_of(_SAME.get(named, named)).program


def resolve_targets(
    settings: Settings, sources: Iterable[str] = (), *, home: Path | None = None
) -> Targets:
    """The skill and the memory file of a night, each of them safe to write.

    Args:
        settings: Which agent, where, and which files by name.
        sources: The sources that sessions came from, the most frequent first (`agent: auto`).
        home: The user's home.

    Raises:
        ConfigError: The agent is not known.
        RefusedChange: A file cannot be written safely; it names the file and says what to do.
    """
    agent = agent_of(settings, sources)
    project, home = settings.project.resolve(), (home or Path.home()).resolve()
    skill = _skill(settings, agent, project, home) if settings.evolve_skill else None
    memory = _memory(settings, agent, project, home) if settings.evolve_memory else None
    targets = Targets(agent, skill, memory)
    check_distinct([target.path for target in (skill, memory) if target])
    return targets


def find_skill(settings: Settings, name: str, *, home: Path | None = None) -> SkillLookup:
    """The one `SKILL.md` of a skill that a session names, among the folders of all agents."""
    if not (asked := _SKILL_NAME.fullmatch(name)) or name.endswith("."):
        return SkillLookup(name, "rejected", why="it is no name of a skill")
    home = (home or Path.home()).resolve()
    found: dict[Path, Target] = {}
    refused: list[str] = []
    for root in _roots(settings, asked["plugin"] or "", home):
        path = root / asked["name"] / MAIN
        if not path.exists() and not path.is_symlink():
            continue
        try:
            target = _safe(name, path, root)
        except RefusedChange as error:
            refused.append(str(error))
        else:
            found.setdefault(target.path, target)
    if len(found) > 1:
        places = ", ".join(str(path) for path in found)
        return SkillLookup(name, "ambiguous", why=f"it is in several places: {places}")
    if found:
        return SkillLookup(name, "found", next(iter(found.values())))
    if refused:
        return SkillLookup(name, "rejected", why=refused[0])
    return SkillLookup(name, "missing", why="no folder of skills has it")


def check_distinct(paths: Iterable[Path]) -> None:
    """Refuse paths that are one file, here or where capitals make no difference."""
    seen: dict[str, Path] = {}
    for path in paths:
        if (other := seen.setdefault(_folded(str(path)), path)) is not path:
            raise RefusedChange(
                f"{other} and {path} would be one file; give one of them another name"
            )


def check_place(path: Path, root: Path) -> Path:
    """The file behind all links, if it lies in `root` and can be replaced there.

    Raises:
        RefusedChange: It leads elsewhere, is no regular file, or has a second name.
    """
    real, inside = _real(path), _real(root)
    if inside not in real.parents:
        raise RefusedChange(
            f"{path} leads to {real}, outside of {inside}, and is not written. Put the file itself "
            "there, or name the real one (--target-skill-path, --memory-path)."
        )
    if path.is_symlink() and not path.exists():
        raise RefusedChange(f"{path} is a symbolic link to {real}, where nothing is; remove it")
    _check_capitals(real, inside)
    try:
        state = real.lstat()
    except (FileNotFoundError, NotADirectoryError):
        state = None
    except OSError as error:
        raise RefusedChange(f"{path} cannot be looked at: {error.strerror}") from None
    if state is not None and not stat.S_ISREG(state.st_mode):
        raise RefusedChange(f"{path} is not a regular file, and is not replaced")
    if state is not None and state.st_nlink > 1:
        raise RefusedChange(
            f"{path} has {state.st_nlink} names (hard links); replacing one would separate them. "
            "Make it a file of its own (cp it, then mv the copy over it)."
        )
    _check_writable(real)
    return real


def check_allowed(settings: Settings, path: Path, *, home: Path | None = None) -> None:
    """Refuse a path that no night with these settings would write, whoever proposes it.

    Raises:
        RefusedChange: It is neither a skill in a folder of skills nor a memory file.
    """
    project, home = settings.project.resolve(), (home or Path.home()).resolve()
    if path in {_real(memory) for memory in _memories(settings, project, home)}:
        return
    if path.name == MAIN:
        roots = [project, *_roots(settings, "", home)]
        if settings.target_skill_path:
            roots.append((project / settings.target_skill_path.expanduser()).parent)
        roots += [home / place.home for place in PLACES.values()]
        if any(_real(root) in path.parents for root in roots):
            return
    raise RefusedChange(
        f"{path} is not among the files that are written for {project}. If it is right, name it: "
        "--place home, --target-skill-path, --memory-path or --skill-root."
    )


def _memories(settings: Settings, project: Path, home: Path) -> Iterator[Path]:
    name = settings.managed_skill_name
    for agent, place in PLACES.items():
        yield from (project / each.format(name=name) for each in _MEMORY.get(agent, ("AGENTS.md",)))
        if settings.place == "home":
            yield from (home / each for each in place.home_rules)
    if settings.place == "home":
        yield from (home / each for each in _HOME_MEMORY.values())
    if settings.memory_path:
        yield project / settings.memory_path.expanduser()


def _skill(settings: Settings, agent: str, project: Path, home: Path) -> Target:
    if given := settings.target_skill_path:
        path = given.expanduser()
        path = path if path.is_absolute() else project / path
        if path.name != MAIN:
            raise RefusedChange(f"--target-skill-path {given}: a skill is a file called {MAIN}")
        return _safe("skill", path, project if _below(path, project) else path.parent)
    name = valid_name(settings.managed_skill_name)
    if not name or name != settings.managed_skill_name:
        raise RefusedChange(
            f"managed_skill_name {settings.managed_skill_name!r} is no name of a skill: small "
            "letters, digits and single dashes"
        )
    place = place_of(agent)
    root, folder = (home, place.home) if settings.place == "home" else (project, place.workspace)
    return _safe("skill", root / folder / name / MAIN, root, new_skill(name, _DESCRIPTION))


def _memory(settings: Settings, agent: str, project: Path, home: Path) -> Target:
    if given := settings.memory_path:
        path = given.expanduser()
        path = path if path.is_absolute() else project / path
        return _safe("memory", path, project if _below(path, project) else path.parent)
    if settings.place == "home":
        listed = _HOME_MEMORY.get(agent) or next(iter(PLACES[agent].home_rules), None)
        if listed is None:
            raise RefusedChange(
                f"{agent} has no memory file for all projects; use --place project, "
                "--memory-path FILE or --no-evolve-memory"
            )
        return _safe("memory", home / listed, home)
    names = _MEMORY.get(agent, ("AGENTS.md",))
    paths = [project / name.format(name=settings.managed_skill_name) for name in names]
    path = next((path for path in paths if path.exists() or path.is_symlink()), paths[0])
    blank = new_rule_file(_DESCRIPTION) if path.suffix == ".mdc" else b""
    return _safe("memory", path, project, blank)


def _safe(name: str, path: Path, root: Path, blank: bytes = b"") -> Target:
    real = check_place(path, root)
    target = Target(name=name, path=real, root=_real(root), before=_read(path, real), blank=blank)
    try:
        Skill.parse(target.document.learned)
    except SkillError as error:
        raise RefusedChange(f"{path}: {error}") from None
    return target


def _read(path: Path, real: Path) -> bytes | None:
    try:
        return read_file(real, SKILL_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedChange(f"{path} cannot be read: {error.strerror or error}") from None


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError as error:  # a circle of links, where the system notices
        raise RefusedChange(f"{path} cannot be followed: {error.strerror}") from None


def _below(path: Path, folder: Path) -> bool:
    return folder in Path(os.path.normpath(path)).parents


def _check_writable(real: Path) -> None:
    folder = next(place for place in real.parents if place.exists())
    if not folder.is_dir():
        raise RefusedChange(f"{real} cannot be made: {folder} is a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RefusedChange(f"{real} cannot be written: {folder} does not allow it")


def _check_capitals(real: Path, root: Path) -> None:
    """Refuse a new name beside one that is the same where capitals make no difference."""
    place = root
    for part in real.relative_to(root).parts:
        if not place.is_dir():
            return
        if not (place / part).exists():
            same = [name for name in os.listdir(place) if _folded(name) == _folded(part)]  # noqa: PTH208 - names
            if same:
                raise RefusedChange(
                    f"{place / same[0]} is there, and {part} would be the same file where capitals "
                    f"make no difference. Rename it to {part}, or name it by --memory-path."
                )
            return
        place /= part


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _roots(settings: Settings, plugin: str, home: Path) -> Iterator[Path]:
    """Folders of skills: the project's, the user's, those that were set, those of plugins."""
    project = settings.project.resolve()
    claude = settings.claude_home or home / ".claude"
    if not plugin:
        places = PLACES.values()
        folders = [
            *(
                project / folder
                for place in places
                for folder in (place.workspace, *place.also_read)
            ),
            *(home / folder for place in places for folder in (place.home, *place.also_read)),
            claude / "skills",
            *settings.skill_root,
        ]
        yield from (folder for folder in dict.fromkeys(folders) if folder.is_dir())
    for owner in sorted((claude / "plugins" / "cache").glob("*/*")):
        if plugin and owner.name != plugin:
            continue
        versions = [path.parent for path in owner.glob("*/skills") if path.is_dir()]
        newest = max(versions, key=lambda path: _version(path.name)) if versions else owner
        if (newest / "skills").is_dir():
            yield newest / "skills"


def _version(name: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in re.findall(r"\d+", name)), name
