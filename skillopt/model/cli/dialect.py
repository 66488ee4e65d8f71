"""What tells one program from another: how it is called, and how its output reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, cast

from skillopt.core.chat import Message, Usage
from skillopt.model.provider import Json


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as a program can be given it."""

    model: str
    """Blank: the one that the program is set up with."""
    effort: str
    system: str
    prompt: str
    extra: Mapping[str, object]
    """Settings that only this program has."""

    @property
    def whole(self) -> str:
        """Instructions and prompt in one text, for programs that have no place for the former."""
        if not self.system:
            return self.prompt
        return f"<instructions>\n{self.system}\n</instructions>\n\n{self.prompt}"


@dataclass(frozen=True, slots=True)
class Command:
    """How to ask."""

    arguments: Sequence[str]
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a program's output says."""

    text: str | None
    """None: no answer."""
    usage: Usage | None = None
    """None: it does not count."""
    problem: str = ""
    """Its own words for what went wrong."""
    tool: str = ""
    """A tool that it used although it was given none."""


class Dialect(Protocol):
    """One program."""

    backend: ClassVar[str]
    program: ClassVar[str]
    """As it is called on PATH."""
    path_key: ClassVar[str]
    """The setting that holds another path."""
    path_variables: ClassVar[tuple[str, ...]]
    """Variables that may hold another path."""
    key_name: ClassVar[str]
    """The variable under which the program looks for a key."""
    home_name: ClassVar[str]
    """The variable that names the folder of its settings."""
    variables: ClassVar[tuple[str, ...]]
    """Further variables that the program needs, secrets among them."""
    efforts: ClassVar[tuple[str, ...]]
    login: ClassVar[str]
    """How to log in."""

    def command(self, asked: Asked, work: Path, side: Path) -> Command:
        """How to ask in the empty folder `work`; files may be put into `side`."""
        ...

    def read(self, out: str) -> Heard:
        """Take the output apart; what is not understood is passed over."""
        ...


def converse(messages: Sequence[Message]) -> tuple[str, str]:
    """Instructions and prompt; a conversation of several turns is written out."""
    system = "\n\n".join(each.text for each in messages if each.role == "system")
    turns = [each for each in messages if each.role != "system"]
    if len(turns) == 1:
        return system, turns[0].text
    told = "\n\n".join(f"<{each.role}>\n{each.text}\n</{each.role}>" for each in turns)
    return system, f"{told}\n\nGive the assistant's next message, and nothing else."


def events(out: str) -> Iterator[dict[str, Json]]:
    """The JSON objects of an output that has one per line."""
    for line in out.splitlines():
        if line.lstrip().startswith("{"):
            try:
                found: object = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield cast("dict[str, Json]", found)


def number(value: Json) -> int:
    """A count; 0 where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
