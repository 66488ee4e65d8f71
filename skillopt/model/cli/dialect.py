"""What differs between programs: how each is called, and how its output is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from skillopt.core.chat import Message, Usage
from skillopt.core.intake import read_json
from skillopt.model.cli.home import Place
from skillopt.model.provider import Json


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One question as a program can be given it."""

    model: str
    """Blank: the one that the program is set up with."""
    effort: str
    system: str
    prompt: str
    base_url: str
    """Blank: the provider that the program has been made for."""
    keyed: bool
    """Whether there is a key; else the program is logged in."""
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
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables beyond those that every call has."""


@dataclass(frozen=True, slots=True)
class ProgramReply:
    """What a program's output says."""

    text: str | None
    """None: no answer."""
    usage: Usage | None = None
    """None: it does not count."""
    problem: str = ""
    """Its own words for what went wrong."""
    tool: str = ""
    """A tool that it used although it was given none."""


class Program(Protocol):
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
    server_key_name: ClassVar[str]
    """The same for a server that `base_url` names."""
    folder: ClassVar[str]
    """The folder in the user's home that holds its settings and credentials."""
    folder_variable: ClassVar[str]
    """The variable that names another such folder."""
    variables: ClassVar[tuple[str, ...]]
    """Variables that let it in, secrets among them."""
    efforts: ClassVar[tuple[str, ...]]
    login: ClassVar[str]
    """How to log in."""

    def credentials(self, asked: ProgramCall) -> tuple[str, ...]:
        """Files of the program's folder that it may see, and nothing else of the user's.

        A log-in is for the provider's own server and for no other that `base_url` names.
        """
        ...

    def command(self, asked: ProgramCall, place: Place) -> Command:
        """How to ask; files may be put into `place`, but not into its `work`."""
        ...

    def read(self, out: str, place: Place) -> ProgramReply:
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
                found = read_json(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


def number(value: Json) -> int:
    """A count; 0 where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
