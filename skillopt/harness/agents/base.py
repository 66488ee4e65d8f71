"""An agent program as a harness: it works in a sandbox, and asks the target through one door."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import ClassVar, Final, Literal

from typing_extensions import Self

from skillopt.aio import unless
from skillopt.core.abilities import images_of, limits_of, workspace_of
from skillopt.core.chat import Image, Message, ToolCall, Usage
from skillopt.core.episode import ReachedLimit, Workspace
from skillopt.core.intake import Json, is_blank, json_lines
from skillopt.core.ports import Episode, TakesEmpty
from skillopt.core.rollout import Trajectory
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.core.skill import Skill
from skillopt.errors import ConfigError, HarnessError
from skillopt.harness.agents import launch, programs
from skillopt.harness.base import HarnessContext, ServedModel
from skillopt.harness.places import SkillPlace, packaged
from skillopt.harness.workspace import write_files

KEY: Final = "kept-outside-of-the-sandbox"
"""Given to programs that insist on a key; the real one is added outside of the sandbox."""
DOOR: Final = launch.DOOR
HOME: Final = launch.HOME
WORK: Final = launch.WORK
_TASK: Final = "task.md"
_PLAN: Final = ".skillopt-plan.json"
"""Gone before the program starts; not an argument, for those can be read by others."""
_ATTACHMENTS: Final = "attachments"
_IN_PROMPT: Final = 60_000
"""Bytes of a task that are told in the prompt; a longer one has to be read from its file."""
_RESULT_CHARS: Final = 20_000
"""Of the result of a tool; what is longer is cut in the middle."""
_LIMITS: Final = SandboxLimits(
    seconds=1.0,
    memory=2**46,  # JavaScript engines reserve far more than they use
    total_memory=2**33,
    processes=1024,
    open_files=2**14,
    file_bytes=2**30,
    disk_bytes=2**32,
    files=500_000,
    output_bytes=2**26,
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ,.;:!?()/+*=_-]{8,}")
_ONE_CALL: Final = Usage(1)
_LONGEST: Final = 7 * 86_400
"""Seconds of an attempt."""
_SAID: Final = 600
"""Characters of a program's own words that an error repeats."""


@dataclass(frozen=True)
class AgentSettings:
    """Keys of `env` that all agents have."""

    agent_seconds: float = 900.0
    """maximum seconds of one attempt, unless the task has a limit of its own"""
    network: bool = False
    """whether the program may use the network besides the model"""
    answer_file: str = ""
    """file of the workspace that holds the answer, if it is there; else the last message does"""
    skill_use: Literal["read", "offered"] = "read"
    """read: the prompt says to read the skill first | offered: the program sees its name and
    description, as with any other skill"""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a time that is none, and a file that is elsewhere."""
        if not 0 < self.agent_seconds <= _LONGEST:
            raise ValueError(f"agent_seconds should be above 0 and at most {_LONGEST:,}")
        answer = PurePosixPath(self.answer_file)
        if answer.is_absolute() or ".." in answer.parts:
            raise ValueError("answer_file should be a path within the workspace")


@dataclass(frozen=True, slots=True)
class AgentCall:
    """What a program is to be started with."""

    model: str
    prompt: str
    effort: str
    """Empty: left to the program."""
    options: Mapping[str, object]
    """Keys of `model` that begin with the name of the agent, without it."""
    images: tuple[str, ...]
    """Paths in the workspace of pictures that belong to the task."""
    network: bool
    own_folder: Path
    """The folder of the user's in which the program has its settings, for those that are asked
    for."""

    def option(self, name: str) -> str:
        value = self.options.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """How to start a program.

    `DOOR` stands for the address of the model, `HOME` for its home, `WORK` for its workspace.
    """

    arguments: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    home: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files of its home, by path; it has no others."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What the output of a program tells."""

    messages: tuple[Message, ...]
    answer: str | None
    """The last message; None: it did not come to an end."""
    problem: str = ""
    """Its own words for what went wrong."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """Messages as they are told one by one."""

    messages: list[Message] = field(default_factory=list[Message])

    def say(self, text: str) -> None:
        if text.strip():
            self.messages.append(Message("assistant", text))

    def call(self, number: str, tool: str, arguments: Json) -> None:
        call = ToolCall(number, tool, json.dumps(arguments, ensure_ascii=False))
        self.messages.append(Message("assistant", "", calls=(call,)))

    def result(self, number: str, text: str) -> None:
        self.messages.append(Message("tool", text, answers=number))

    def report(self, answer: str | None, problem: str = "") -> AgentReport:
        return AgentReport(tuple(self.messages), answer, problem)


@dataclass(frozen=True, slots=True)
class _Workplace:
    """The folder of an attempt and what its agent is told."""

    files: Workspace
    added: frozenset[str]
    """Files that are not the task's own."""
    prompt: str
    pictures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _NoDoor:
    """Stands in for the model where a program has its own."""

    path: Path = Path()
    usage: Usage = _ONE_CALL
    asking: int = 0
    trouble: None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, words: str) -> bool:
        del words
        return False


class AgentHarness(ABC):
    """Base of the agents: a subclass says how its program is started and how it reports."""

    Settings = AgentSettings
    serves: ClassVar[frozenset[Literal["images", "tools", "workspace"]]] = frozenset(
        ("images", "workspace")
    )

    name: ClassVar[str]
    """As it is registered, and as its keys of `model` begin."""
    program: ClassVar[str]
    """As it is called on PATH."""
    path_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that may hold its path."""
    install: ClassVar[str]
    """How to install it."""
    backend: ClassVar[str]
    """The backend of the model that it asks, if only the agent is named."""
    backend_settings: ClassVar[Mapping[str, object]] = {}
    uses_model: ClassVar[bool] = True
    """False: it asks a server of its own, with a key of its own."""
    place: ClassVar[SkillPlace]
    folder: ClassVar[str]
    """The folder in a user's home that holds its settings."""
    efforts: ClassVar[tuple[str, ...]] = ()
    """Reasoning efforts that it knows."""

    def __init__(self, context: HarnessContext[AgentSettings]) -> None:
        self.context = context
        self.settings = context.settings
        self.path = self._find()
        self.home = Path(context.variables("HOME") or Path.home())
        self.sandbox = context.sandbox()
        self.starts = 1 + _whole(context.options.get("empty_response_retries"), otherwise=1)
        self.shows_trace = context.options.get("trace_to_optimizer") is not False

    @classmethod
    def create(cls, context: HarnessContext[AgentSettings]) -> Self:
        """Raises `ConfigError` where program, sandbox or settings are no good."""
        return cls(context)

    @abstractmethod
    def launch(self, call: AgentCall) -> AgentLaunch:
        """How to start the program without a user: with all rights, for the sandbox limits it."""

    @abstractmethod
    def read(self, events: Iterable[dict[str, Json]]) -> AgentReport:
        """Take the JSON objects apart that it printed; what is not understood is passed over."""

    @property
    def fingerprint(self) -> str:
        """Program, version, prompt, settings and model."""
        settings = replace(self.settings, agent_seconds=1.0)
        options = {
            name: value
            for name, value in sorted(self.context.options.items())
            if name not in ("path", "home") and value not in (None, "")
        }
        told = json.dumps([vars(settings), options, self._effort()], default=str)
        model = self.context.model.fingerprint
        return f"{self.name}/1/{programs.version(self.path)}/{told}/{model}"

    def uses_network(self) -> bool:
        return self.settings.network

    async def run(self, episode: Episode, skill: Skill, *, replicate: int = 0) -> Trajectory:
        """Attempt the episode; a program that says nothing is started once more, and told so."""
        del replicate
        workplace = self._workplace(episode, skill)
        limits, used = limits_of(episode), Usage()
        empty_ok = isinstance(episode, TakesEmpty) and episode.empty_ok
        reminder = ""
        for _ in range(self.starts):
            seconds = limits.seconds or self.settings.agent_seconds
            await self.context.check_budget()
            async with self._door() as served:
                result = await self._start(workplace, served, workplace.prompt + reminder, seconds)
                waiting = served.asking > 0
            # A limit or a key that ends the run has been raised by now.
            if result is None or served.trouble is not None:
                raise served.trouble or HarnessError("the model cannot be asked any more")
            used += served.usage
            if not self.uses_model:
                await self.context.charge(served.usage)
            report = self.read(json_lines(result.stdout))
            reached = self._check(result, report, limits.seconds is not None, waiting)
            opened = _opened(skill, served, report)
            answer = self._answer(report, result)
            if empty_ok or reached or not is_blank(answer):
                return self._trajectory(
                    workplace, result, report, answer, used, reached, opened=opened
                )
            reminder = "\n\nEnd with a message that holds your answer; it must not be empty."
        raise HarnessError(f"{self.program} ended without an answer, {self.starts} times")

    def _door(self) -> AbstractAsyncContextManager[ServedModel]:
        if self.uses_model:
            return self.context.serve_model(self.sandbox.user)
        return nullcontext(_NoDoor())

    # ---- before

    def _find(self) -> Path:
        look = self.context.variables
        given = str(self.context.options.get("path") or "") or next(
            (found for name in self.path_variables if (found := look(name))), ""
        )
        wanted = os.path.expanduser(given) if given else self.program  # noqa: PTH111 - a word too
        found = shutil.which(wanted, path=look("PATH"))
        if found is None:
            raise ConfigError(
                f"{self.name} needs the program {wanted!r}, which is not on PATH: {self.install}, "
                f"or set model.{self.name}_path"
            )
        path = Path(found).absolute()
        if interpreter := programs.missing_interpreter(path, look("PATH")):
            raise ConfigError(
                f"{self.name}: {path} is a script for {interpreter!r}, which is not on PATH; "
                "install it"
            )
        return path

    def _effort(self) -> str:
        options = self.context.options
        own = options.get("reasoning_effort") or options.get("effort")
        wishes = (own, self.context.effort) if own != "medium" else (self.context.effort, own)
        effort = next((str(wish) for wish in wishes if wish), "")
        return effort if effort in self.efforts else ""

    def _workplace(self, episode: Episode, skill: Skill) -> _Workplace:
        own = workspace_of(episode) or Workspace()
        task = f"{episode.instructions}\n\n{episode.brief}".strip() + "\n"
        added: dict[str, bytes] = {_free(_TASK, own.files): task.encode()}
        if skill.render().strip():
            files = self.place.files(skill)
            added |= {name: text.encode() for name, text in files.items()}
        pictures = tuple(_attached(images_of(episode)))
        if pictures:
            listed = "".join(f"- {name}\n" for name, _ in pictures)
            added["ATTACHMENTS.md"] = f"Pictures that belong to the task:\n\n{listed}".encode()
            added |= dict(pictures)
        collect = own.collect
        if self.settings.answer_file:
            collect = (*collect, self.settings.answer_file)
        names = tuple(name for name, _ in pictures)
        files = replace(own, files={**own.files, **added}, collect=collect)
        prompt = self._prompt(skill, task, next(iter(added)), names, edits=bool(own.collect))
        return _Workplace(files, frozenset(added) - own.files.keys(), prompt, names)

    def _prompt(
        self, skill: Skill, task: str, name: str, pictures: Sequence[str], *, edits: bool
    ) -> str:
        """What to read, what to do and how to answer."""
        lines: list[str] = []
        if skill.render().strip() and self.settings.skill_use == "read":
            path = f"{self.place.workspace}/{packaged(skill).name}/SKILL.md"
            lines.append(f"First read the file {path} and follow it in all that you do.")
        told = len(task.encode()) <= _IN_PROMPT
        where = f"below (it is also in {name})" if told else f"in the file {name}; read it"
        lines.append(f"Do the task that is {where}.")
        if pictures:
            lines.append(f"Look at its pictures: {', '.join(pictures)}.")
        lines.append("Work in this folder only, and ask nothing: nobody is there to answer.")
        if edits:
            lines.append("Leave what you make as files here.")
        if file := self.settings.answer_file:
            lines.append(f"Write your answer into the file {file}.")
        else:
            lines.append("Your last message is your answer: keep to the format that the task asks.")
        return "\n".join(lines) + (f"\n\n<task>\n{task}</task>" if told else "")

    # ---- the program

    async def _start(
        self, workplace: _Workplace, served: ServedModel, prompt: str, seconds: float
    ) -> SandboxResult | None:
        """What came of the program; None: it was ended, for the model cannot be asked any more."""
        home, own = self.home, self.context.options.get("home")
        call = AgentCall(
            model=self.context.model_name,
            prompt=prompt,
            effort=self._effort(),
            options=self.context.options,
            images=workplace.pictures,
            network=self.uses_network(),
            own_folder=Path(str(own)) if own else home / self.folder,
        )
        how = self.launch(call)
        look = self.context.variables
        python, folders = programs.python()
        runner = programs.interpreter(self.path, look("PATH"))
        path = programs.SYSTEM if runner is None else f"{runner.parent}:{programs.SYSTEM}"
        parts = [self.path] if runner is None else [self.path, runner]
        shown = {*folders, *(each for part in parts for each in programs.needed(part, home))}
        plan = {
            "model": str(served.path) if self.uses_model else "",
            "home": dict(how.home),
            "command": [str(self.path.resolve()), *how.arguments],
            "variables": {
                "PATH": path,
                "LANG": "C.UTF-8",
                "NO_COLOR": "1",
                **how.variables,
            },
        }
        given = {**workplace.files.files, _PLAN: json.dumps(plan).encode()}
        files = replace(workplace.files, files=given)
        if self.context.keep is not None:
            files = replace(files, collect=("*",), max_bytes=2**28, max_file_bytes=2**26)
        work = self.sandbox.run(
            [str(python), "-I", "-S", "-c", _launcher(), _PLAN],
            files,
            replace(_LIMITS, seconds=seconds),
            network=call.network,
            sockets=[served.path] if self.uses_model else [],
            programs=sorted(shown),
        )
        result = await unless(served.over, work)
        if self.context.keep is not None and result is not None:
            _keep(self.context.keep, workplace, result)
        return result

    # ---- afterwards

    def _check(
        self,
        result: SandboxResult,
        report: AgentReport,
        limited: bool,  # noqa: FBT001 - by the episode
        waiting: bool,  # noqa: FBT001 - for the model
    ) -> ReachedLimit:
        """The limit that ended the attempt; raises what is no answer of the agent.

        The program's own report counts, whatever its exit code says.
        """
        if result.ended_by == "output":
            raise HarnessError(f"{self.program} printed more than {_LIMITS.output_bytes:,} bytes")
        if result.ended_by in ("disk", "memory"):
            raise HarnessError(f"{self.program} used more {result.ended_by} than it may")
        if result.ended_by == "seconds":
            if limited and not waiting:
                return "seconds"
            doing = ", while it waited for the model" if waiting else ""
            raise HarnessError(
                f"{self.program} did not end within {result.seconds:.0f} s{doing} "
                "(env.agent_seconds)"
            )
        if report.answer is None:
            words = report.problem or result.stderr.strip() or result.stdout.strip()
            said = " ".join(words[-_SAID:].split()) or "it printed nothing"
            raise HarnessError(
                f"{self.program} ended with code {result.status} and without a result: {said}"
            )
        return ""

    def _answer(self, report: AgentReport, result: SandboxResult) -> str:
        file = result.files.get(self.settings.answer_file)
        return (report.answer or "") if file is None else file.decode(errors="replace")

    def _trajectory(
        self,
        workplace: _Workplace,
        result: SandboxResult,
        report: AgentReport,
        answer: str,
        usage: Usage,
        reached: ReachedLimit,
        *,
        opened: bool | None,
    ) -> Trajectory:
        own = workplace.files.collect
        files = {
            name: content
            for name, content in result.files.items()
            if name not in workplace.added and any(fnmatchcase(name, each) for each in own)
        }
        said = report.messages if self.shows_trace else (Message("assistant", answer),)
        return Trajectory(
            (Message("user", workplace.prompt), *map(_shortened, said)),
            answer=answer,
            usage=usage,
            turns=max(1, usage.calls),
            files=files,
            exit_status=result.status,
            reached_limit=reached,
            skill_opened=opened,
        )


def _whole(value: object, *, otherwise: int) -> int:
    match value:
        case int():
            return value
        case str() if value.isdigit():
            return int(value)
        case None | "":
            return otherwise
        case _:
            raise ConfigError(
                f"EXEC_EMPTY_RESPONSE_RETRIES should be a whole number, not {value!r}"
            )


@cache
def _launcher() -> str:
    return Path(launch.__file__).read_text("utf-8")


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, or one like it that no file of the task has."""
    while name in taken:
        name = f"the-{name}"
    return name


def _attached(images: Sequence[Image]) -> Iterator[tuple[str, bytes]]:
    for number, image in enumerate(images, start=1):
        kind = image.media_type.rpartition("/")[2].partition("+")[0] or "bin"
        yield f"{_ATTACHMENTS}/image-{number}.{kind}", base64.b64decode(image.data)


def _opened(skill: Skill, served: ServedModel, report: AgentReport) -> bool | None:
    """Whether the model has seen the text of the skill, of which it is told only what it is about.

    None: the skill is too short to tell.
    """
    text = skill.main.render().removeprefix(skill.front)
    about = packaged(skill).description if text.strip() else ""
    rules = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    pieces = [piece.strip() for line in rules for piece in _PLAIN.findall(line)]
    told = [piece for piece in pieces if piece and piece not in about]
    if not told:
        return None
    rule = max(told, key=len)
    results = (message.text for message in report.messages if message.role == "tool")
    return served.heard(rule) or any(rule in text for text in results)


def _shortened(message: Message) -> Message:
    text = message.text
    if len(text) <= _RESULT_CHARS:
        return message
    half = _RESULT_CHARS // 2
    cut = f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"
    return replace(message, text=cut)


def _keep(folder: Path, workplace: _Workplace, result: SandboxResult) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(mkdtemp(prefix="attempt-", dir=folder))
    write_files(place, Workspace(files=result.files))
    (place / "output.txt").write_text(result.stdout + result.stderr, encoding="utf-8")
