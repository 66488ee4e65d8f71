"""A folder of text documents, and tools that find and read them and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, cast

from skillopt.aio import in_thread
from skillopt.core.chat import Tool, ToolCall
from skillopt.core.intake import MIB, read_file

MOST_BYTES: Final = 64 * MIB
"""Of one document."""
_MOST_PATHS, _MOST_LINES, _MOST_CHARS, _MOST_HITS, _HIT_CHARS = 50, 80, 4000, 20, 300


def _tool(name: str, about: str, needed: int, **parameters: tuple[str, str]) -> Tool:
    described = {
        key: {"type": kind, "description": text} for key, (kind, text) in parameters.items()
    }
    return Tool(
        name,
        about,
        {"type": "object", "properties": described, "required": list(parameters)[:needed]},
    )


DOCUMENT_TOOLS: Final = (
    _tool(
        "glob",
        f"List documents whose path matches a pattern, at most {_MOST_PATHS}.",
        1,
        pattern=("string", "Such as *.txt or *1954*; * matches any text."),
    ),
    _tool(
        "read",
        f"Read lines of a document, at most {_MOST_CHARS} characters at a time.",
        1,
        path=("string", "As glob lists it."),
        start=("integer", "The first line, from 1."),
        limit=("integer", f"How many lines; {_MOST_LINES} if not given."),
        column=("integer", "Where to begin in the first line if it is long, from 1."),
    ),
    _tool(
        "grep",
        f"Find lines that contain a text, whatever its case; at most {_MOST_HITS} of them.",
        1,
        pattern=("string", "The text itself, not a regular expression."),
        path=("string", "A document or a pattern of paths; all documents if not given."),
    ),
)


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents by the path that tools know them by. No other file can be reached."""

    files: Mapping[str, Path]

    @classmethod
    def below(cls, folder: Path) -> Documents:
        """All text files of a folder; links are not followed, since they may lead elsewhere."""
        found: dict[str, Path] = {}
        for place, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = Path(place) / name
                plain = path.suffix.lower() in {".txt", ".md"} and not path.is_symlink()
                if plain and path.is_file() and not name.startswith("."):
                    found[path.relative_to(folder).as_posix()] = path
        return cls(found)

    def only(self, names: Iterable[str]) -> Documents:
        """Some of them, by file name or path; `KeyError` for one that is not here."""
        by_name = {Path(name).name: name for name in self.files} | {
            name: name for name in self.files
        }
        return Documents({by_name[name]: self.files[by_name[name]] for name in names})

    def contents(self) -> dict[str, bytes]:
        return {name: read_file(path, MOST_BYTES) for name, path in self.files.items()}

    def digest(self) -> str:
        """Changes when a document or its name does."""
        whole = hashlib.sha256()
        for name, path in self.files.items():
            content = hashlib.sha256(read_file(path, MOST_BYTES)).hexdigest()
            whole.update(f"{name}\0{content}\n".encode())
        return whole.hexdigest()[:16]

    async def call(self, call: ToolCall) -> str:
        """The result of a call of one of the tools; `ValueError` says what is wrong with it."""
        given = cast("dict[str, object]", json.loads(call.arguments))
        match call.name:
            case "glob":
                return self._glob(_text(given, "pattern"))
            case "read":
                path, start = _text(given, "path"), _count(given, "start", 1)
                limit, column = _count(given, "limit", _MOST_LINES), _count(given, "column", 1)
                return await in_thread(self._read, path, start, limit, column)
            case _:
                pattern, path = _text(given, "pattern"), _text(given, "path", "*")
                return await in_thread(self._grep, pattern, path)

    def _glob(self, pattern: str) -> str:
        names = self._matching(pattern)
        more = len(names) - _MOST_PATHS
        told = [*names[:_MOST_PATHS], *([f"and {more} more"] if more > 0 else [])]
        return "\n".join(told) or f"no document matches {pattern!r}"

    def _matching(self, pattern: str) -> list[str]:
        bare = pattern.removeprefix("./").removeprefix("**/")
        return [
            name
            for name in self.files
            if name == bare or fnmatchcase(name, bare) or fnmatchcase(Path(name).name, bare)
        ]

    def _read(self, name: str, start: int, limit: int, column: int) -> str:
        lines = self._lines(self._named(name))
        if start > len(lines):
            return f"{name} has {len(lines)} lines"
        shown: list[str] = []
        room = _MOST_CHARS
        for number, line in enumerate(lines[start - 1 : start - 1 + limit], start=start):
            first = column if number == start else 1
            text = f"{number}: {'…' if first > 1 else ''}{line[first - 1 :]}"
            if len(text) > room and shown:
                shown.append(f"(cut; go on with start={number})")
                break
            if len(text) > room:
                then = first + room - (len(text) - len(line[first - 1 :]))
                shown.append(f"{text[:room]}… (cut; go on with start={number}, column={then})")
                break
            shown.append(text)
            room -= len(text) + 1
        return "\n".join(shown)

    def _grep(self, wanted: str, where: str) -> str:
        folded, hits = wanted.casefold(), list[str]()
        if not folded.strip():
            raise ValueError("pattern is empty; give the text to look for")
        names = self._matching(where) or [self._named(where)]
        for name in names:
            for number, line in enumerate(self._lines(name), start=1):
                if folded not in line.casefold():
                    continue
                if len(hits) == _MOST_HITS:
                    return "\n".join([*hits, "and more; look for a longer text or in one document"])
                hits.append(f"{name}:{number}: {_cut(line, line.casefold().find(folded))}")
        return "\n".join(hits) or f"no line contains {wanted!r}"

    def _named(self, name: str) -> str:
        names = self._matching(name)
        if len(names) != 1:
            raise ValueError(f"there is no document {name!r}; glob lists those that there are")
        return names[0]

    def _lines(self, name: str) -> list[str]:
        try:
            content = read_file(self.files[name], MOST_BYTES)
        except OSError as error:
            raise ValueError(f"{name} cannot be read") from error
        return content.decode(errors="replace").splitlines()


def _cut(line: str, place: int) -> str:
    """The part of a long line around a place."""
    start = max(0, place - _HIT_CHARS // 2)
    part = line[start : start + _HIT_CHARS]
    return f"{'…' if start else ''}{part}{'…' if start + _HIT_CHARS < len(line) else ''}"


def _text(given: Mapping[str, object], name: str, otherwise: str | None = None) -> str:
    value = given.get(name, otherwise)
    if value is None or value == "":
        value = otherwise
    if not isinstance(value, str):
        raise TypeError(f"{name} should be a text")
    return value


def _count(given: Mapping[str, object], name: str, otherwise: int) -> int:
    value = given.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} should be a whole number from 1 on")
    return value
