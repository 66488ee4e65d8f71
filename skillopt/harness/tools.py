"""The harnesses `tools` and `code`: a chat model works with files and programs in a sandbox."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast

from typing_extensions import Self

from skillopt.core.abilities import limits_of, workspace_of
from skillopt.core.chat import Model, Tool, ToolCall
from skillopt.core.episode import EpisodeNeed, ToolResult
from skillopt.core.ports import Episode, KeepsFolder, Sandbox, SandboxFolder
from skillopt.core.rollout import Trajectory
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.core.skill import Skill
from skillopt.errors import ConfigError
from skillopt.harness.base import HarnessContext
from skillopt.harness.loop import (
    MAX_TURNS,
    OfferedTool,
    ToolLoop,
    clipped,
    first_request,
    tools_of_episode,
)
from skillopt.harness.text_tools import CODE_BLOCKS, JSON_CALLS, CallFormat, final_answer

_LONGEST: Final = 16_000
"""Characters of a result that the model is shown."""
_MOST_READ: Final = 1_000_000
"""Bytes of a file that are read for the model."""
_RUN_HERE: Final = "import sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))"
"""Runs a file so that modules are imported from the current folder."""
_SYSTEM_PYTHON: Final = ("/usr/local/bin/python3", "/usr/bin/python3")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Keys of `env` that both harnesses have."""

    max_turns: int = MAX_TURNS
    """requests to the model per attempt, unless the task has a limit of its own"""
    context_tokens: int = 0
    """above this many tokens, old results are shortened; 0 = when the model refuses"""
    tool_seconds: float = 60.0
    """time limit of one program"""
    tool_memory_mb: int = 1024
    """memory of each process of a program"""
    tool_network: bool = False
    """whether programs may use the network"""
    tool_python: str = ""
    """interpreter for Python code, such as that of a virtual environment; empty = the system's"""

    def __post_init__(self) -> None:
        for name in ("max_turns", "tool_seconds", "tool_memory_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} should be above 0")
        if self.context_tokens < 0:
            raise ValueError("context_tokens should be 0 or above")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings(LoopSettings):
    tool_protocol: Literal["auto", "native", "text"] = "auto"
    """native: tools of the API | text: calls in words | auto: native, if the model has tools"""


@dataclass(frozen=True, slots=True)
class SandboxLoop:
    """What both harnesses have in common: a model, a sandbox and limits.

    Each attempt has a workspace of its own, which lives as long as the attempt; each program runs
    in the sandbox with that workspace as its current folder. What is left there is scored.
    """

    Settings: ClassVar[type[Any]] = LoopSettings
    uses_sandbox: ClassVar[bool] = True
    name: ClassVar[str]
    guidance: ClassVar[str]
    """What the model is told about its workspace, in the system message."""

    model: Model
    sandbox: KeepsFolder
    settings: LoopSettings = field(default_factory=LoopSettings)
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def create(cls, context: HarnessContext[Any]) -> Self:
        """Raises `ConfigError` where there is no sandbox, or no such interpreter."""
        sandbox = context.sandbox()
        interpreter(context.settings.tool_python)
        return cls(context.model, keeping_folders(sandbox), context.settings)

    @property
    def fingerprint(self) -> str:
        settings = ",".join(
            f"{name}={getattr(self.settings, name)}" for name in self.settings.__dataclass_fields__
        )
        return f"{self.name}/1/{settings}/{self.model.fingerprint}"

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Let the model work until it answers, and read out the files that it has left."""
        request = first_request(
            episode, skill, replicate=replicate, instructions=self.guidance.strip()
        )
        loop = ToolLoop(
            model=self.model,
            limits=limits_of(episode),
            turns=self.settings.max_turns,
            context_tokens=self.settings.context_tokens,
            form=self._form(),
            answer=self._answer,
            clock=self.clock,
        )
        async with self.sandbox.open(workspace_of(episode)) as folder:
            trajectory = await loop.run(
                request, self._tools(episode, _WorkspaceTools(folder, self.settings))
            )
            left = folder.collect()
        return replace(trajectory, files=left.files)

    def _form(self) -> CallFormat | None:
        raise NotImplementedError

    def _answer(self, text: str) -> str:
        return text

    def _tools(self, episode: Episode, workspace_tools: _WorkspaceTools) -> list[OfferedTool]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Tools(SandboxLoop):
    """Offers bash, python and files as tools, besides the tools of the episode."""

    Settings: ClassVar[type[Any]] = ToolSettings
    serves: ClassVar[frozenset[EpisodeNeed]] = frozenset(("images", "tools", "workspace"))
    name: ClassVar[str] = "tools"
    guidance: ClassVar[str] = """
You have a workspace: a folder with files, in which you can run programs with the tools. Files stay
between two calls, running programs and variables do not. Look at the result of each call, and when
the task is done, reply with your answer.
"""

    settings: LoopSettings = field(default_factory=ToolSettings)

    def _form(self) -> CallFormat | None:
        return JSON_CALLS if cast("ToolSettings", self.settings).tool_protocol == "text" else None

    def _tools(self, episode: Episode, workspace_tools: _WorkspaceTools) -> list[OfferedTool]:
        """Those of the episode go before ours of the same name."""
        own = tools_of_episode(episode)
        taken = {offered.tool.name for offered in own}
        return [
            *own,
            *(offered for offered in workspace_tools.tools() if offered.tool.name not in taken),
        ]


@dataclass(frozen=True, slots=True)
class Code(SandboxLoop):
    """Runs the code that the model writes in fenced blocks, and shows what it printed."""

    serves: ClassVar[frozenset[EpisodeNeed]] = frozenset(("images", "workspace"))
    name: ClassVar[str] = "code"
    guidance: ClassVar[str] = """
You have a workspace: a folder with files, in which your code is run.
"""

    def _form(self) -> CallFormat | None:
        return CODE_BLOCKS

    def _answer(self, text: str) -> str:
        return final_answer(text)

    def _tools(self, episode: Episode, workspace_tools: _WorkspaceTools) -> list[OfferedTool]:
        del episode
        return workspace_tools.programs("code")


def keeping_folders(sandbox: Sandbox) -> KeepsFolder:
    if not isinstance(sandbox, KeepsFolder):
        raise ConfigError(
            f"env.sandbox: {type(sandbox).__name__} keeps no files between two programs (it has no "
            "`open`), which the harnesses tools and code need; choose another sandbox"
        )
    return sandbox


def interpreter(path: str) -> tuple[str, list[Path]]:
    """The Python of the sandbox, and the folders that it needs to see."""
    if not path:
        system = next((name for name in _SYSTEM_PYTHON if Path(name).exists()), "")
        return (system, []) if system else (sys.executable, _needed(Path(sys.executable)))
    given = Path(path).expanduser().absolute()
    if not given.is_file():
        raise ConfigError(f"env.tool_python: there is no interpreter {given}")
    return str(given), _needed(given)


def _needed(python: Path) -> list[Path]:
    """The virtual environment, and the installation that it is made from."""
    around, real = python.parent.parent, python.resolve().parent.parent
    for folder in (around, real):
        if Path.cwd().is_relative_to(folder) or Path.home().is_relative_to(folder):
            raise ConfigError(
                f"env.tool_python: with {python}, programs would see all of {folder}; give an "
                "interpreter in a folder of its own, such as that of a virtual environment"
            )
    return [around] if around == real else [around, real]


def _schema(required: Mapping[str, str], **optional: str) -> Mapping[str, object]:
    kinds = {"start": "integer", "lines": "integer"}
    return {
        "type": "object",
        "properties": {
            name: {"type": kinds.get(name, "string"), "description": text}
            for name, text in {**required, **optional}.items()
        },
        "required": list(required),
    }


@dataclass(slots=True)
class _WorkspaceTools:
    """The tools of one attempt, on its folder."""

    folder: SandboxFolder
    settings: LoopSettings
    _ran: int = 0

    def tools(self) -> list[OfferedTool]:
        path = {"path": "Path of the file in the workspace."}
        return [
            *self.programs("command"),
            self._offer(
                "read_file",
                "Shows a text file, or a part of it.",
                _schema(path, start="First line, from 1.", lines="How many lines."),
                self._read,
            ),
            self._offer(
                "write_file",
                "Writes a file, with its folders; replaces one that is there.",
                _schema({**path, "content": "All of its text."}),
                self._write,
            ),
            self._offer(
                "edit_file",
                "Replaces a passage of a file, which must occur in it exactly once.",
                _schema({**path, "old": "The passage, as it is.", "new": "What replaces it."}),
                self._edit,
            ),
        ]

    def programs(self, argument: str) -> list[OfferedTool]:
        """Ways to run code; `argument` is what bash calls its script."""

        async def bash(given: Mapping[str, object]) -> str:
            script = self._script("sh", _text(given, argument))
            return await self._run(["bash", script])

        async def python(given: Mapping[str, object]) -> str:
            program, needed = interpreter(self.settings.tool_python)
            script = self._script("py", _text(given, "code"))
            return await self._run([program, "-c", _RUN_HERE, script], needed)

        seconds = f"At most {self.settings.tool_seconds:g} s."
        return [
            self._offer(
                "bash",
                f"Runs a shell script in the workspace. {seconds}",
                _schema({argument: "The script."}),
                bash,
            ),
            self._offer(
                "python",
                f"Runs a Python program in the workspace; shows what it prints. {seconds}",
                _schema({"code": "The program."}),
                python,
            ),
        ]

    def _offer(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, object],
        run: Callable[[Mapping[str, object]], Awaitable[str]],
    ) -> OfferedTool:
        async def called(call: ToolCall) -> ToolResult:
            given = cast("dict[str, object]", json.loads(call.arguments))
            return ToolResult(clipped(await run(given), _LONGEST))

        return OfferedTool(Tool(name, description, parameters), called)

    def _script(self, suffix: str, code: str) -> str:
        self._ran += 1
        return self.folder.lend(f"step-{self._ran}.{suffix}", code.encode("utf-8", "replace"))

    async def _run(self, command: Sequence[str], programs: Sequence[Path] = ()) -> str:
        settings = self.settings
        limits = SandboxLimits(
            seconds=settings.tool_seconds, memory=settings.tool_memory_mb * 2**20
        )
        network = settings.tool_network
        if programs:
            result = await self.folder.run(command, limits, network=network, programs=programs)
        else:
            result = await self.folder.run(command, limits, network=network)
        return _told(result, limits)

    async def _read(self, given: Mapping[str, object]) -> str:
        path = self._path(given)
        content = self.folder.read(path, _MOST_READ)
        try:
            lines = content.decode("utf-8").splitlines(keepends=True)
        except UnicodeDecodeError:
            return f"{path} is not a text file; it has {len(content):,} bytes"
        start = max(1, _number(given, "start", 1))
        shown = lines[start - 1 : start - 1 + _number(given, "lines", len(lines))]
        return "".join(shown) or ("(empty file)" if not lines else f"({path} has fewer lines)")

    async def _write(self, given: Mapping[str, object]) -> str:
        path, text = self._path(given), _text(given, "content").encode("utf-8", "replace")
        self.folder.write(path, text)
        return f"wrote {len(text):,} bytes to {path}"

    async def _edit(self, given: Mapping[str, object]) -> str:
        path, old = self._path(given), _text(given, "old")
        text = self.folder.read(path, _MOST_READ).decode("utf-8")
        count = text.count(old) if old else 0
        if count != 1:
            raise ValueError(f"`old` occurs {count} times in {path}, not once; nothing was changed")
        self.folder.write(path, text.replace(old, _text(given, "new")).encode("utf-8", "replace"))
        return f"changed {path}"

    def _path(self, given: Mapping[str, object]) -> str:
        """Relative to the workspace, however the model has written it."""
        path = _text(given, "path")
        return path.removeprefix(f"{self.folder.place}/").removeprefix("./")


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise TypeError(f"the argument {name!r} should be a text, not {value!r}")
    return value


def _number(given: Mapping[str, object], name: str, otherwise: int) -> int:
    value = given.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"the argument {name!r} should be a whole number, not {value!r}")
    return value


def _told(result: SandboxResult, limits: SandboxLimits) -> str:
    """What a program did, as short as it can be said."""
    most = {
        "seconds": f"it took more than {limits.seconds:g} s",
        "output": f"it printed more than {limits.output_bytes:,} bytes",
        "disk": f"its files took more than {limits.disk_bytes:,} bytes, or were too many",
        "memory": f"it held more than {limits.total_memory:,} bytes of memory",
        "": "",
    }[result.ended_by]
    parts = [result.stdout.rstrip("\n")] if result.stdout.strip() else []
    if result.stderr.strip():
        parts.append(f"stderr:\n{result.stderr.rstrip()}")
    if most:
        parts.append(f"ended: {most}")
    elif result.status:
        parts.append(f"exit status {result.status}")
    return "\n".join(parts) or "(no output)"
