"""The commands as tools of an MCP server, for agents that call tools instead of a shell.

The schema of a tool is made from the options of its command and from the settings: those that are
common by themselves, all of them as `settings`, because schemas are read by a model in every
session. Each call is the command itself, in a process of its own in the caller's project.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import click
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from skillopt import __version__
from skillopt.core.nearest import did_you_mean
from skillopt_sleep.cli.main import app
from skillopt_sleep.cli.options import as_arguments
from skillopt_sleep.settings import Settings
from skillopt_sleep.starting import own_command

TOOLS: Final = {
    "sleep_status": "status",
    "sleep_dry_run": "dry-run",
    "sleep_run": "run",
    "sleep_adopt": "adopt",
    "sleep_harvest": "harvest",
    "sleep_rollback": "rollback",
    "sleep_schedule": "schedule",
    "sleep_unschedule": "unschedule",
}
_SESSIONS: Final = ("source", "scope", "lookback_hours", "max_sessions", "max_tasks")
_NIGHT: Final = (
    *_SESSIONS, "tasks_file", "agent", "target_skill_path", "backend", "model", "preferences",
    "edit_budget", "auto_adopt", "progress",
)  # fmt: skip
COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "sleep_run": _NIGHT,
    "sleep_dry_run": _NIGHT,
    "sleep_schedule": _NIGHT,
    "sleep_harvest": _SESSIONS,
}
"""Settings with an argument of their own; `project` has one everywhere."""
_READING: Final = frozenset({"sleep_status", "sleep_dry_run"})
_CHANGING: Final = frozenset({"sleep_adopt", "sleep_rollback", "sleep_unschedule"})
_BY_HAND: Final = frozenset({"--json", "--force"})
"""Options that are no arguments: all answers are JSON, and only a person replaces their work."""
_STATUS: Final = {0: "ok", 3: "handoff_pending"}
_MOST: Final = 200_000
"""Characters of what a command says on standard error that are passed on, from the end."""
_RESULT: Final = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ok", "error", "handoff_pending"]},
        "exit_code": {"type": "integer"},
        "diagnostics": {"type": "string", "description": "What the command said beside it."},
        "output": {"type": "string", "description": "The result of the command, as JSON."},
    },
    "required": ["status", "exit_code", "diagnostics", "output"],
}


class SleepServer:
    """All tools for one project, unless a call names another."""

    def __init__(self, project: Path | None = None) -> None:
        self._project = (project or Path.cwd()).resolve()
        self._given = project is not None
        self.tools = {name: _tool(name, _command(command)) for name, command in TOOLS.items()}

    async def serve(self) -> None:
        """Answer on standard input and output until the client leaves."""
        server: Server[Any] = Server(
            "skillopt-sleep",
            version=__version__,
            instructions="Learns from past sessions of this project at night. Look first "
            "(sleep_status, sleep_dry_run); adopt only what the user has agreed to.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    async def _list(
        self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=list(self.tools.values()))

    async def _call(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in self.tools:
            near = did_you_mean(params.name, TOOLS) or f"there are {', '.join(TOOLS)}"
            raise MCPError(INVALID_PARAMS, f"no tool {params.name!r} is known; {near}")
        values = dict(params.arguments or {})
        arguments = _arguments(self.tools[params.name], values)
        folder = self._folder(values.get("project"))
        if params.name == "sleep_harvest" and (output := values.get("output")):
            place = (folder / str(output)).resolve()
            if not place.is_relative_to(folder.resolve()):
                raise MCPError(INVALID_PARAMS, f"output: {place} is not below {folder}")
        done = await _run([TOOLS[params.name], "--json", *arguments], folder, context)
        return _result(*done)

    def _folder(self, named: object) -> Path:
        folder = self._project / Path(str(named)).expanduser() if named else self._project
        if not named and not self._given and folder in (Path.home(), Path(folder.anchor)):
            raise MCPError(
                INVALID_PARAMS, f"the server was started in {folder}; name the project: project"
            )
        if not folder.is_dir():
            raise MCPError(INVALID_PARAMS, f"project: {folder} is no folder")
        return folder


async def _run(
    arguments: Sequence[str], folder: Path, context: ServerRequestContext[Any]
) -> tuple[int, str, str]:
    """Run a command to its end; it ends with the call if the client takes that back."""
    process = await asyncio.create_subprocess_exec(
        *own_command(),
        *arguments,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=2**24,
    )
    assert process.stdout is not None  # noqa: S101 - asked for above
    assert process.stderr is not None  # noqa: S101
    said: list[str] = []

    async def listen(stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            said.append(line.decode(errors="replace"))
            await context.session.report_progress(len(said), message=said[-1].strip())

    try:
        output, _ = await asyncio.gather(process.stdout.read(), listen(process.stderr))
        code = await process.wait()
    finally:
        if process.returncode is None:
            _end(process.pid)
            await asyncio.shield(process.wait())
    return code, output.decode(errors="replace"), "".join(said)[-_MOST:]


def _end(process: int) -> None:
    """Ask a command and all it has started to stop; finished work is kept."""
    with suppress(ProcessLookupError):
        if sys.platform == "win32":
            os.kill(process, signal.SIGTERM)
        else:
            os.killpg(process, signal.SIGTERM)


def _result(code: int, output: str, diagnostics: str) -> CallToolResult:
    status = _STATUS.get(code, "error")
    text = output.strip() or diagnostics.strip() or status
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content={
            "status": status,
            "exit_code": code,
            "diagnostics": diagnostics,
            "output": output,
        },
        is_error=status == "error",
    )


def _command(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None  # noqa: S101 - TOOLS names commands
    return command


def _tool(name: str, command: click.Command) -> Tool:
    schemas = cast("dict[str, dict[str, Any]]", Settings.model_json_schema()["properties"])
    own = {
        parameter.name: _option(parameter)
        for parameter in command.params
        if parameter.name and parameter.name not in schemas and not _BY_HAND & {*parameter.opts}
    }
    common = {key: _setting(schemas[key]) for key in ("project", *COMMON.get(name, ()))}
    further = [key for key in schemas if key not in common]
    settings = {
        "type": "object",
        "description": "Further settings by name.",
        "propertyNames": {"enum": further},
    }
    return Tool(
        name=name,
        description=" ".join((command.help or "").split()),
        input_schema={
            "type": "object",
            "properties": {**own, **common, "settings": settings},
            "additionalProperties": False,
        },
        output_schema=_RESULT,
        annotations=ToolAnnotations(
            read_only_hint=name in _READING, destructive_hint=name in _CHANGING
        ),
    )


def _setting(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a setting: what it may be, and what it means; defaults may be set elsewhere."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    kept = {key: value for key, value in kinds[0].items() if key not in ("default", "title")}
    return {**kept, "description": schema.get("description", "")}


def _option(parameter: click.Parameter) -> dict[str, Any]:
    match parameter.type:
        case click.IntRange(min=low, max=high):
            kind: dict[str, Any] = {"type": "integer", "minimum": low, "maximum": high}
        case click.Choice(choices=choices):
            kind = {"enum": list(choices)}
        case click.types.BoolParamType():
            kind = {"type": "boolean"}
        case click.types.IntParamType():
            kind = {"type": "integer"}
        case click.types.FloatParamType():
            kind = {"type": "number"}
        case _:
            kind = {"type": "string"}
    told = getattr(parameter, "help", None)
    many = {"type": "array", "items": kind} if parameter.multiple else kind
    return {**many, "description": told} if told else many


def _arguments(tool: Tool, given: Mapping[str, Any]) -> list[str]:
    """The command line for a call; what it means is checked by the command."""
    known = cast("dict[str, Any]", tool.input_schema["properties"])
    _check_names(tool.name, given, known)
    values = {key: value for key, value in given.items() if key != "settings"}
    further: object = given.get("settings") or {}
    if not isinstance(further, dict):
        raise MCPError(INVALID_PARAMS, f"{tool.name}: settings are names with values")
    named = cast("dict[str, Any]", further)
    if "project" in named:
        raise MCPError(
            INVALID_PARAMS, f"{tool.name}: project is an argument of its own, not one of settings"
        )
    # Also those with an argument of their own: what they mean is clear.
    _check_names(tool.name, named, Settings.model_fields)
    for key, value in {**values, **named}.items():
        if isinstance(value, dict):
            raise MCPError(INVALID_PARAMS, f"{tool.name}: {key} is not of the right type")
    parameters = {each.name: each for each in _command(TOOLS[tool.name]).params}
    told: list[str] = []
    last: list[str] = []
    for key, value in {**values, **named}.items():
        parameter = parameters[key]
        if value is None or key == "project":  # the command runs in its folder
            continue
        items = _list(value)
        if items is not None and not parameter.multiple:
            raise MCPError(INVALID_PARAMS, f"{tool.name}: {key} is one value, not a list")
        if isinstance(parameter, click.Argument):
            last += ["--", str(value)]
        elif key in Settings.model_fields:
            told += as_arguments({key: value if items is None else items})
        elif isinstance(value, bool):
            told += [parameter.opts[0]] if value else []
        else:
            told += [f"{parameter.opts[0]}={item}" for item in items or [value]]
    return [*told, *last]


def _list(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None


def _check_names(tool: str, given: Collection[str], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            near = did_you_mean(key, known) or f"there are {', '.join(known)}"
            raise MCPError(INVALID_PARAMS, f"{tool} has no argument {key!r}; {near}")
