"""Backend `codex_cli`: OpenAI's program `codex`, in exec mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from skillopt.core.chat import Model, Usage
from skillopt.model.cli.dialect import Asked, Command, Heard, events, number
from skillopt.model.cli.text import TextProgram
from skillopt.model.provider import Json, Transport
from skillopt.model.settings import ModelSettings

_HARMLESS = {"agent_message", "reasoning", "error", "todo_list"}
"""Items of a turn that touch nothing."""


class CodexCli:
    """`codex exec`: in a read-only sandbox, with its shell, search and servers switched off."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    key_required: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_shared_effort: ClassVar[bool] = True

    backend: ClassVar[str] = "codex_cli"
    program: ClassVar[str] = "codex"
    path_key: ClassVar[str] = "codex_exec_path"
    path_variables: ClassVar[tuple[str, ...]] = ("CODEX_EXEC_PATH", "CODEX_CLI_BIN", "CODEX_PATH")
    key_name: ClassVar[str] = "CODEX_API_KEY"
    home_name: ClassVar[str] = "CODEX_HOME"
    variables: ClassVar[tuple[str, ...]] = ("CODEX_API_KEY", "CODEX_HOME", "OPENAI_BASE_URL")
    efforts: ClassVar[tuple[str, ...]] = ("none", "minimal", "low", "medium", "high", "xhigh")
    login: ClassVar[str] = "run `codex login`, or set CODEX_API_KEY"

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        """A model ready to be asked."""
        del http
        return TextProgram.create(settings, cls())

    def command(self, asked: Asked, work: Path, side: Path) -> Command:
        """Everything goes to standard input."""
        del side
        changes: dict[str, object] = {
            "approval_policy": "never",
            "web_search": "disabled",
            "features.shell_tool": False,
            "mcp_servers": {},
        }
        if asked.effort:
            changes["model_reasoning_effort"] = asked.effort
        arguments = ["exec", "--json", "--ephemeral", "--sandbox", "read-only"]
        arguments += ["--skip-git-repo-check", "--color", "never", "--cd", str(work)]
        if asked.model:
            arguments += ["--model", asked.model]
        if profile := asked.extra.get("profile"):
            arguments += ["--profile", str(profile)]
        for key, value in changes.items():
            arguments += ["-c", f"{key}={json.dumps(value)}"]
        return Command([*arguments, "-"], asked.whole)

    def read(self, out: str) -> Heard:
        """The last message of the agent; the turn must have been completed."""
        text: str | None = None
        usage: Usage | None = None
        problem = tool = ""
        for event in events(out):
            match event:
                case {
                    "type": "item.completed",
                    "item": {"type": "agent_message", "text": str(said)},
                }:
                    text = said
                case {"type": "item.started" | "item.completed", "item": {"type": str(kind)}} if (
                    kind not in _HARMLESS
                ):
                    tool = kind
                case {"type": "turn.completed", **rest}:
                    usage, problem = _usage(rest.get("usage")), ""
                case {"type": "turn.failed", "error": {"message": str(said)}} | {
                    "type": "error",
                    "message": str(said),
                }:
                    problem = said
                case _:
                    pass
        return Heard(text, usage, problem, tool)


def _usage(counts: Json) -> Usage | None:
    match counts:
        case {"input_tokens": int(sent), "output_tokens": int(written), **rest}:
            return Usage(1, sent, written, min(sent, number(rest.get("cached_input_tokens"))))
        case _:
            return None
