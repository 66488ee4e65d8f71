"""Where agent programs look for skills, and a skill as each of them reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import yaml

from skillopt.core.nearest import did_you_mean
from skillopt.core.skill import MAIN, Skill, Text
from skillopt.errors import ConfigError, SkillError

TARGET_NAME: Final = "skillopt-target"
"""The name of a skill that has none, as long as it is trained."""
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_RESERVED: Final = frozenset(("anthropic", "claude"))
"""Words that claude refuses in the name of a skill."""
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPlace:
    """Where a program looks for skills. Each is a folder with its name, and SKILL.md in it."""

    program: str
    workspace: str
    """The folder of skills below the folder in which the program works."""
    home: str
    """The folder of skills below the user's home."""
    also_read: tuple[str, ...] = ()
    """Further folders of skills in which it looks, below both."""
    rules: tuple[str, ...] = ()
    """Files in the workspace that enter its prompt as they are."""
    home_rules: tuple[str, ...] = ()
    """The same below the home."""

    def files(
        self, skill: Skill, name: str = "", description: str = "", *, home: bool = False
    ) -> dict[str, str]:
        """The files to write below the workspace or the home, by path.

        Raises:
            SkillError: The skill's front matter cannot be read.
        """
        made = packaged(skill, name, description)
        folder = f"{self.home if home else self.workspace}/{made.name}"
        return {f"{folder}/{path}": text for path, text in made.files.items()}


@dataclass(frozen=True, slots=True)
class SkillPackage:
    """A skill as all agent programs read it."""

    name: str
    """Also the name of its folder."""
    description: str
    """Together with the name all that a program shows to its model before the file is opened."""
    files: Mapping[str, str]
    """`SKILL.md` and the reference files."""


PLACES: Final[Mapping[str, SkillPlace]] = {
    place.program: place
    for place in (
        SkillPlace(
            program="claude",
            workspace=".claude/skills",
            home=".claude/skills",
            rules=("CLAUDE.md", ".claude/CLAUDE.md"),
            home_rules=(".claude/CLAUDE.md",),
        ),
        SkillPlace(
            program="codex",
            workspace=".agents/skills",
            home=".agents/skills",
            also_read=(".codex/skills",),
            rules=("AGENTS.md",),
            home_rules=(".codex/AGENTS.md",),
        ),
        SkillPlace(
            program="copilot",
            workspace=".github/skills",
            home=".copilot/skills",
            also_read=(".agents/skills", ".claude/skills"),
            rules=("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md"),
        ),
        SkillPlace(
            program="cursor",
            workspace=".cursor/skills",
            home=".cursor/skills",
            rules=("AGENTS.md",),
        ),
        SkillPlace(
            program="gemini",
            workspace=".gemini/skills",
            home=".gemini/skills",
            also_read=(".agents/skills",),
            rules=("GEMINI.md",),
            home_rules=(".gemini/GEMINI.md",),
        ),
        SkillPlace(
            program="opencode",
            workspace=".opencode/skills",
            home=".config/opencode/skills",
            also_read=(".agents/skills", ".claude/skills", ".opencode/skill"),
            rules=("AGENTS.md",),
            home_rules=(".claude/CLAUDE.md",),
        ),
        SkillPlace(
            program="qwen",
            workspace=".qwen/skills",
            home=".qwen/skills",
            also_read=(".agents/skills",),
            rules=("AGENTS.md", "QWEN.md"),
        ),
        SkillPlace(
            program="openclaw",
            workspace="skills",
            home=".openclaw/skills",
            also_read=(".agents/skills",),
            rules=("AGENTS.md",),
            home_rules=(".openclaw/workspace/AGENTS.md",),
        ),
        SkillPlace(
            program="devin",
            workspace=".devin/skills",
            home=".config/devin/skills",
            also_read=(".agents/skills",),
            rules=("AGENTS.md", "CLAUDE.md"),
            home_rules=(".config/devin/AGENTS.md",),
        ),
        SkillPlace(
            program="pi",
            workspace=".pi/skills",
            home=".pi/agent/skills",
            rules=("AGENTS.md", "CLAUDE.md"),
            home_rules=(".pi/agent/AGENTS.md",),
        ),
    )
}
"""By program; found out with the real ones, except for cursor, devin and pi (documentation)."""


def place_of(program: str) -> SkillPlace:
    if program not in PLACES:
        known = f"the programs are {', '.join(sorted(PLACES))}"
        raise ConfigError(
            f"no agent program {program!r} is known; {did_you_mean(program, PLACES) or known}"
        )
    return PLACES[program]


def packaged(skill: Skill, name: str = "", description: str = "") -> SkillPackage:
    """The skill with a name and a description that every program accepts.

    They are taken from its front matter where none are given; what else stands there is kept.
    Front matter that is right already stays the same byte for byte.

    Raises:
        SkillError: The front matter cannot be read.
    """
    said = _front_matter(skill)
    own = {key: said[key] for key in ("name", "description") if isinstance(said.get(key), str)}
    name = valid_name(name or str(own.get("name", ""))) or TARGET_NAME
    description = _valid_description(
        description or str(own.get("description", "")) or _described(skill)
    )
    front = skill.front
    if own != {"name": name, "description": description}:
        told = {**said, "name": name, "description": description}
        ordered = {key: told[key] for key in ("name", "description", *said)}
        written = yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=2**16)
        front = f"---\n{written}---\n".replace("\n", skill.newline)
    if not front.endswith("\n"):
        front += skill.newline
    main = Skill.of(front, skill.parts or (Text(""),)).render()
    return SkillPackage(name, description, {**skill.files, MAIN: main})


def valid_name(name: str) -> str:
    """The nearest name that every program accepts; empty if nothing is left of it."""
    if _NAME.fullmatch(name) and len(name) <= LONGEST_NAME and not _RESERVED & {*name.split("-")}:
        return name
    words = [word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in _RESERVED]
    return "-".join(words)[:LONGEST_NAME].strip("-")


def _valid_description(description: str) -> str:
    """In one line, not too long, and without marks that a prompt may take for its own."""
    line = " ".join(re.sub(r"[<>]", " ", description).split())
    if len(line) <= LONGEST_DESCRIPTION:
        return description if description == line else line
    return f"{line[: LONGEST_DESCRIPTION - 4].rpartition(' ')[0]} ..."


def _described(skill: Skill) -> str:
    title = _HEADING.search(skill.body)
    about = f"{title[1].rstrip('.')}: rules" if title else "Rules"
    return f"{about} for the tasks at hand. Read it before you begin with any task."


def _front_matter(skill: Skill) -> Mapping[str, object]:
    inner = "\n".join(skill.front.splitlines()[1:-1])
    try:
        said: object = yaml.safe_load(inner)
    except yaml.YAMLError as error:
        raise SkillError(
            f"the front matter of the skill is not YAML, so no agent program can read it: {error}"
        ) from error
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise SkillError(
            "the front matter of the skill should have lines `name: ...` and `description: ...`, "
            f"not {inner!r}"
        )
    return cast("Mapping[str, object]", said)
