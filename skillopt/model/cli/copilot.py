"""Backend `copilot_chat`: GitHub's program `copilot`, one prompt at a time."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from skillopt.core.chat import Model
from skillopt.errors import Refused
from skillopt.model.cli.dialect import Asked, Command, Heard, events
from skillopt.model.cli.text import TextProgram
from skillopt.model.provider import Transport
from skillopt.model.settings import ModelSettings

_LONGEST: Final = 120_000
"""Bytes of one argument; Linux takes no more than 128 KiB."""


class CopilotChat:
    """`copilot -p`: no tools, no servers, no custom instructions. It does not count tokens."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = False

    backend: ClassVar[str] = "copilot_chat"
    program: ClassVar[str] = "copilot"
    path_key: ClassVar[str] = "copilot_exec_path"
    path_variables: ClassVar[tuple[str, ...]] = ("COPILOT_EXEC_PATH",)
    key_name: ClassVar[str] = "COPILOT_GITHUB_TOKEN"
    home_name: ClassVar[str] = "COPILOT_HOME"
    variables: ClassVar[tuple[str, ...]] = (
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_HOME",
    )
    efforts: ClassVar[tuple[str, ...]] = ()
    login: ClassVar[str] = "run `copilot` once and log in, or set COPILOT_GITHUB_TOKEN"

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        del http
        return TextProgram.create(settings, cls())

    def command(self, asked: Asked, work: Path, side: Path) -> Command:
        """The prompt is an argument: the program takes it in no other way without a terminal."""
        del work, side
        size = len(asked.whole.encode("utf-8", "replace"))
        if size > _LONGEST:
            raise Refused(
                f"copilot takes a prompt of at most {_LONGEST:,} bytes, and this one has {size:,}; "
                "lower gradient.minibatch_size, or choose another backend for this role"
            )
        arguments = ["-p", asked.whole, "--output-format", "json", "--stream", "off"]
        arguments += ["--no-color", "--log-level", "none", "--disable-builtin-mcps"]
        arguments += ["--no-custom-instructions", "--available-tools="]
        if asked.model:
            arguments += ["--model", asked.model]
        return Command(arguments)

    def read(self, out: str) -> Heard:
        """All messages of the assistant, joined."""
        said: list[str] = []
        problem = tool = ""
        for event in events(out):
            match event:
                case {"type": "assistant.message", "data": {"content": str(text)}} | {
                    "type": "assistant.message",
                    "content": str(text),
                }:
                    said.append(text)
                case {"type": str(kind)} if kind.startswith("tool."):
                    tool = kind
                case {"type": "session.error" | "error", "data": {"message": str(text)}} | {
                    "type": "session.error" | "error",
                    "message": str(text),
                }:
                    problem = text
                case _:
                    pass
        return Heard("".join(said) if said else None, None, problem, tool)
