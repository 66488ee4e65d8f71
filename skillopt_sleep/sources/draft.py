"""A session while it is read: who said what, and what the calls of tools tell."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from skillopt.core.intake import Json, is_blank, read_json
from skillopt_sleep.sources.fields import dig, path_of, text_at, utc
from skillopt_sleep.sources.prompts import Injected, words_of_user

_SHELLS: Final = re.compile(r"(?i)(?:^|[_.])(?:bash|shell|sh|powershell|terminal|exec|cmd|command)")
_WRITERS: Final = re.compile(r"(?i)write|edit|create|replace|patch|insert|delete|rename|notebook")
_READERS: Final = re.compile(r"(?i)read|view|open|cat|get_file")
_SKILL_TOOLS: Final = re.compile(r"(?i)(?:activate_|use_|load_)?skill")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_SKILL_FILE: Final = re.compile(r"([\w.-]+)[/\\]SKILL\.md\b")
_PATH_KEYS: Final = (
    "file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "file",
    "filename",
)  # fmt: skip


@dataclass(slots=True)
class SessionDraft:
    """A session as a reader puts it together, in the order of what happened."""

    origin: Path
    id: str = ""
    project: str = ""
    branch: str = ""
    commit: str = ""
    headless: bool | None = None
    """Whether the program says that nobody was there; None: it does not say."""
    own: bool = False
    side_chain: bool = False
    troubles: int = 0
    first: datetime | None = None
    last: datetime | None = None
    prompts: list[str] = field(default_factory=list[str])
    answers: list[str] = field(default_factory=list[str])
    tools: list[str] = field(default_factory=list[str])
    commands: list[str] = field(default_factory=list[str])
    skills: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    left_out: Counter[str] = field(default_factory=Counter[str])

    def seen(self, time: Json) -> None:
        """Something happened then."""
        at = utc(time)
        if at is not None:
            self.first = min(self.first or at, at)
            self.last = max(self.last or at, at)

    def says(self, text: str) -> None:
        """A text in the user's name."""
        if is_blank(text):
            return
        try:
            words = words_of_user(text)
        except Injected as kind:
            self.left_out[str(kind)] += 1
            self.troubles += str(kind) == "interruption"
            return
        self.prompts.append(words)
        self.answers.append("")

    def answer(self, text: str) -> None:
        """A text of the agent; the last one after a prompt counts."""
        if self.answers and not is_blank(text):
            self.answers[-1] = text

    def calls(self, name: str, arguments: Json = None) -> None:
        """A call of a tool, with the files, commands and skills that its arguments tell of."""
        if not name:
            return
        if name not in self.tools:
            self.tools.append(name)
        if isinstance(arguments, str):
            arguments = _arguments(arguments)
        path = next((found for key in _PATH_KEYS if (found := text_at(arguments, key))), "")
        command = _command(arguments) if _SHELLS.search(name) else ""
        patch = next(
            (t for key in ("patch", "input", "diff") if (t := text_at(arguments, key))), ""
        )
        if command:
            self.commands.append(command)
        for changed in _PATCHED.findall(f"{patch}\n{command}"):
            self.changes(changed)
        if _SKILL_TOOLS.fullmatch(name):
            self.uses(text_at(arguments, "skill") or text_at(arguments, "name"))
        elif path and _READERS.search(name) and not _WRITERS.search(name):
            self.uses(*_SKILL_FILE.findall(path))
        elif path and _WRITERS.search(name):
            self.changes(path)
        elif command:
            self.uses(*_SKILL_FILE.findall(command))

    def changes(self, path: str) -> None:
        if path and path not in self.files:
            self.files.append(path_of(path))

    def uses(self, *skills: str) -> None:
        self.skills += [skill for skill in skills if skill and skill not in self.skills]


def _arguments(text: str) -> Json:
    try:
        return read_json(text)
    except ValueError:
        return {"input": text}


def _command(arguments: Json) -> str:
    """The shell command in the arguments of a tool: a text, or words of which the last is one."""
    for key in ("command", "cmd", "script"):
        found = dig(arguments, key)
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            words = [word for word in found if isinstance(word, str)]
            shell = len(words) == 3 and words[1].startswith("-") and words[1].endswith("c")
            return words[2] if shell else " ".join(words)
    return ""
