"""SWE-bench: issues of open source projects, resolved if the tests of the fix pass."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skillopt.aio import in_thread
from skillopt.core.chat import Tool, ToolCall
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, Workspace
from skillopt.core.extras import install_command
from skillopt.core.intake import MIB
from skillopt.core.ports import Sandbox
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Gold, Split, Task
from skillopt.datasets.raw import BenchmarkData, DataSource, RawItem, raw_rows
from skillopt.datasets.rows import Row
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import Tasks, filled_field, fingerprint, id_column, row_of, text_field
from skillopt.envs.swebench.grading import (
    Grade,
    grade_in_container,
    grade_in_sandbox,
    has_container_engine,
)
from skillopt.envs.swebench.repository import (
    Checkout,
    WorkingCopy,
    checked_out,
    edit_command,
    find_python,
    find_repository,
)
from skillopt.errors import ConfigError, DataError, EnvironmentFault

_INSTRUCTIONS: Final = """\
You resolve an issue in a repository of Python code. Change the code of the project so that the \
issue is gone and nothing else breaks; tests that you do not see will check both. Leave existing \
tests as they are. {how}"""
_BY_TOOLS: Final = """\
Your commands run in the root of the repository, one after the other, without a network. When the \
issue is resolved, reply without a call of a tool: the files as they are then are your answer."""
_BY_FILES: Final = "The repository is your workspace; the files as you leave them are your answer."
_SHOWN: Final = 10_000
"""Characters of what a command prints."""
_PATCH: Final = re.compile(r"```(?:diff|patch)[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_FIELDS: Final = (
    "instance_id", "repo", "base_commit", "problem_statement", "test_patch", "version", "image",
    "eval_script", "log_parser", "eval_type",
)  # fmt: skip
_WORKSPACE_BYTES: Final = 256 * MIB
_TOOLS: Final = (
    Tool(
        "bash",
        "Runs a command in the root of the repository.",
        {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    ),
    Tool(
        "edit",
        "Replaces a text in a file, which must be there exactly once; or makes a new file.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "From the root of the repository."},
                "old": {"type": "string", "description": "The text to replace; empty: new file."},
                "new": {"type": "string", "description": "The text in its place."},
            },
            "required": ["path", "old", "new"],
        },
    ),
)


class SweBench:
    """Hard: resolved. Soft: the same, or the share of tests that were to be fixed and are."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """Where repositories and their packages are, and how the agent works."""

        repos: Path | None = None
        """The folder with clones of the repositories, as `owner__name` or `owner/name`."""
        environments: Path | None = None
        """The folder with virtual environments, named by instance or as `owner__name-version`;
        empty: the Python that runs skillopt."""
        engine: Literal["sandbox", "docker"] = "sandbox"
        """Where tests run: in the sandbox, without Docker | in the container image of the task."""
        soft: Literal["resolved", "fixed"] = "resolved"
        """What the soft score is: the hard one | the share of failing tests that pass."""
        hints: bool = False
        """Whether the agent sees what was said about the issue before it was resolved."""
        max_turns: int = 100
        command_timeout: float = 180.0
        """Seconds for a command of the agent."""
        test_timeout: float = 1800.0
        """Seconds for the tests."""
        workspace: bool = False
        """Whether the target gets the files of the repository as its workspace instead of tools;
        agent programs do in any case."""

    initial_skill: ClassVar[Path | None] = Path(__file__).parent / "skills" / "initial.md"
    prompts: ClassVar[Path | None] = None
    data: ClassVar[BenchmarkData] = BenchmarkData(
        title="SWE-bench: issues of open source projects in Python",
        sources=(
            DataSource(
                what="the tasks, with the columns of swebench 5 (eval_script, log_parser)",
                url="https://huggingface.co/datasets/SWE-bench/SWE-bench_Verified",
                licence="MIT; patches belong to their projects",
            ),
            DataSource(
                what="all tasks as files; `swebench dataset build` makes tables of them",
                url="https://github.com/SWE-bench/swe-bench-tasks",
                licence="MIT; patches belong to their projects",
                revision="3d07b464",
            ),
            DataSource(
                what="clones of the repositories, for env.repos",
                url="https://github.com",
                licence="that of each project",
            ),
        ),
        items={"full": 2294, "dev": 225, "lite": 300, "verified": 500},
        extra="swebench",
        programs=("git", "bwrap"),
        notes=("env.environments holds a virtual environment for each task or version",),
    )
    name = "swebench"

    def __init__(self, settings: SweBench.Settings, splits: Splits) -> None:
        _check(settings)
        self._settings = settings
        self._sandbox: Sandbox | None = None
        self._runs_at_all: dict[str, bool] = {}
        column = id_column(splits, "instance_id")
        self._tasks = Tasks.of(splits, self._task, id_column=column)

    @staticmethod
    def read_raw(source: Path) -> Iterator[RawItem]:
        """The rows of a table, with the instance as their id."""
        for raw in raw_rows(source):
            name = text_field(raw.row, "instance_id")
            yield RawItem(Row({**raw.row.data, "id": name}, raw.row.where))

    @property
    def fingerprint(self) -> str:
        chosen = self._settings
        counts = [chosen.engine, chosen.soft, chosen.hints, chosen.test_timeout]
        how = [chosen.workspace, chosen.max_turns, chosen.command_timeout]
        return fingerprint(f"{self.name}/1", {"counts": counts, "how": how})

    @property
    def warnings(self) -> Sequence[str]:
        own = (
            "tests run in the sandbox and not in the official images, so that scores are not "
            "official ones (env.engine)"
        )
        return (*self._tasks.warnings, *([own] if self._settings.engine == "sandbox" else []))

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        return ("workspace",) if self._settings.workspace else ("tools",)

    def in_folder(self) -> SweBench:
        """The repository as files instead of tools."""
        made = copy(self)
        made._settings = replace(self._settings, workspace=True)
        return made

    def with_sandbox(self, sandbox: Sandbox) -> SweBench:
        made = copy(self)
        made._sandbox = sandbox
        return made

    def tasks(self, split: Split) -> Sequence[Task]:
        return self._tasks.splits[split]

    def gold(self, task: Task) -> Gold:
        patch = text_field(row_of(task), "patch")
        return Gold(answers=(patch,), reply=f"```diff\n{patch}```")

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[RepositoryTask, None]:
        if self._sandbox is None:
            raise EnvironmentFault("commands of an agent need the sandbox of a run")
        row = row_of(task)
        repository, python = self._places(row)
        async with checked_out(repository, text_field(row, "base_commit")) as base:
            checkout = Checkout(self._sandbox, base, python)
            episode = RepositoryTask(row, checkout, self._settings, self._runs_at_all)
            if self._settings.workspace:
                episode.given = await in_thread(checkout.files)
                yield episode
                return
            async with checkout.open() as episode.copy:
                yield episode

    def _places(self, row: Row) -> tuple[Path, Path]:
        chosen, repo = self._settings, filled_field(row, "repo")
        folder = chosen.repos or Path()
        repository = find_repository(folder, repo)
        if repository is None:
            raise ConfigError(
                f"{row.where}: there is no clone of {repo} in {folder} (env.repos); make one with: "
                f"git clone https://github.com/{repo} {folder / repo.replace('/', '__')}"
            )
        version = text_field(row, "version")
        python = find_python(chosen.environments, text_field(row, "instance_id"), repo, version)
        if python is None:
            name = f"{repo.replace('/', '__')}-{version}"
            raise ConfigError(
                f"{row.where}: there is no virtual environment for {repo} {version} in "
                f"{chosen.environments} (env.environments); make one with: "
                f"python -m venv {chosen.environments}/{name}, and install what the project needs"
            )
        return repository, python

    def _task(self, name: str, row: Row) -> Task:
        for column in _FIELDS:
            text_field(row, column, _OLD_ROWS if column in _OF_SWEBENCH_5 else "")
        filled_field(row, "problem_statement")
        for column in ("FAIL_TO_PASS", "PASS_TO_PASS"):
            _names(row, column)
        repository, _ = self._places(row)
        commit = text_field(row, "base_commit")
        found = subprocess.run(  # noqa: S603 - no shell, and git is asked for a commit only
            ["git", "-c", "safe.directory=*", "cat-file", "-e", f"{commit}^{{commit}}"],  # noqa: S607
            cwd=repository,
            capture_output=True,
            check=False,
        )
        if not re.fullmatch(r"[0-9a-f]{7,64}", commit) or found.returncode:
            raise DataError(f"{row.where}: {repository} has no commit {commit!r}; fetch it")
        return Task(name, text_field(row, "repo"), row.data)


_OF_SWEBENCH_5: Final = ("image", "eval_script", "log_parser", "eval_type")
_OLD_ROWS: Final = "; rows of swebench 5 or later have it (`swebench dataset build` makes them)"


@dataclass(slots=True)
class RepositoryTask:
    """An issue, and the repository in which it is to be resolved."""

    row: Row
    checkout: Checkout
    settings: SweBench.Settings
    runs_at_all: dict[str, bool]
    """By instance: whether its tests run without a patch; found out when that is in doubt."""
    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The files, for an agent with a workspace."""
    copy: WorkingCopy | None = None
    """Where commands run, for an agent with tools."""
    patch: bytes = b""
    """What was scored."""
    grade: Grade | None = field(default=None)

    @property
    def instructions(self) -> str:
        return _INSTRUCTIONS.format(how=_BY_FILES if self.settings.workspace else _BY_TOOLS)

    @property
    def brief(self) -> str:
        text = f"## Issue of {self.row.data['repo']}\n{self.row.data['problem_statement']}"
        hints = str(self.row.data.get("hints_text") or "").strip()
        return f"{text}\n\n## Hints\n{hints}" if self.settings.hints and hints else text

    @property
    def tools(self) -> tuple[Tool, ...]:
        return () if self.settings.workspace else _TOOLS

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(turns=self.settings.max_turns)

    @property
    def workspace(self) -> Workspace | None:
        if not self.settings.workspace:
            return None
        return Workspace(
            files=self.given,
            collect=("*",),
            max_file_bytes=_WORKSPACE_BYTES,
            max_bytes=_WORKSPACE_BYTES,
        )

    async def call(self, call: ToolCall) -> str:
        given = cast("dict[str, object]", json.loads(call.arguments))
        if call.name == "bash":
            command = ["bash", "-c", _text(given, "command")]
        else:
            path, old, new = (_text(given, name) for name in ("path", "old", "new"))
            command = edit_command(self.checkout.python, path, old, new)
        if self.copy is None:
            raise LookupError(f"there is no tool {call.name}")
        seconds = self.settings.command_timeout
        result = await self.copy.run(command, seconds)
        text = result.stdout.strip()
        if len(text) > _SHOWN:
            text = f"{text[: _SHOWN // 2]}\n…\n{text[-_SHOWN // 2 :]}"
        if result.ended_by:
            why = (
                f"after {seconds:g} s" if result.ended_by == "seconds" else f"by {result.ended_by}"
            )
            return f"{text}\n(ended {why})"
        return f"{text}\n(status {result.status})"

    async def score(self, trajectory: Trajectory) -> Score:
        patch = await self._answer(trajectory)
        if not patch.strip():
            return Score(0, 0, "no change: the repository is as it was")
        self.patch, self.grade = patch, await self._graded(patch)
        return _score(self.grade, self.settings.soft)

    async def _answer(self, trajectory: Trajectory) -> bytes:
        if self.settings.workspace and trajectory.files:
            left = {
                name: content
                for name, content in trajectory.files.items()
                if not name.startswith(".git/")
            }
            return await self.checkout.patch_of(left, self.settings.command_timeout)
        changes = b"" if self.copy is None else await self.copy.patch()
        blocks = _PATCH.findall(trajectory.answer)
        return changes or (str(blocks[-1]).encode() if blocks else b"")

    async def _graded(self, patch: bytes) -> Grade:
        instance, seconds = self.row.data, self.settings.test_timeout
        if self.settings.engine == "docker":
            return await grade_in_container(instance, patch.decode(errors="replace"), seconds)
        grade = await grade_in_sandbox(instance, self.checkout, patch, seconds)
        if not grade.ran and not await self._run_without(seconds):
            raise EnvironmentFault(
                f"the tests of {instance['instance_id']} do not run here, with or without a "
                f"change: {grade.log.strip()[-500:]}"
            )
        return grade

    async def _run_without(self, seconds: float) -> bool:
        """Whether the tests run at all, so that a patch with which they do not is to blame."""
        name = str(self.row.data["instance_id"])
        if name not in self.runs_at_all:
            empty = await grade_in_sandbox(self.row.data, self.checkout, b"", seconds)
            self.runs_at_all[name] = empty.ran
        return self.runs_at_all[name]

    def details(self, trajectory: Trajectory) -> Mapping[str, object]:
        del trajectory
        told: dict[str, object] = {"model_patch": self.patch.decode(errors="replace")}
        if self.grade is not None:
            told |= {
                "resolved": self.grade.resolved,
                "still_failing": list(self.grade.still_failing),
                "broken": list(self.grade.broken),
            }
        return told


def _score(grade: Grade, soft: str) -> Score:
    if grade.resolved:
        return Score(1, 1, "resolved")
    wanted = grade.fixed + len(grade.still_failing)
    share = grade.fixed / wanted if soft == "fixed" and wanted else 0.0
    if not grade.ran:
        return Score(0, 0, f"no test ran: {grade.log.strip()[-300:]}")
    parts = [
        f"{what}: {', '.join(names[:5])}" + (f" and {len(names) - 5} more" if names[5:] else "")
        for what, names in (("still failing", grade.still_failing), ("broken", grade.broken))
        if names
    ]
    return Score(0, share, f"not resolved: {'; '.join(parts)}")


def _check(settings: SweBench.Settings) -> None:
    for key in ("max_turns", "command_timeout", "test_timeout"):
        if getattr(settings, key) <= 0:
            raise ConfigError(f"env.{key}: {getattr(settings, key)}; use more than 0")
    if find_spec("swebench") is None:
        raise ConfigError(
            f"env.name: swebench grades with its own package ({install_command('swebench')})"
        )
    if settings.engine == "docker" and not has_container_engine():
        raise ConfigError(
            "env.engine: docker cannot be found; install it, or use env.engine=sandbox"
        )


def _names(row: Row, column: str) -> list[str]:
    """Names of tests: a list, or a text with one in JSON."""
    value = row.data.get(column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    names = cast("list[object]", value) if isinstance(value, list) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise DataError(f"{row.where}: {column!r} should be a list of names of tests")
    return cast("list[str]", names)


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise TypeError(f"{name} should be a text")
    return value
