"""Mined tasks as an environment of skillopt: a task is attempted again and scored by its reference.

What an infrastructure does wrong is never a score: an attempt that cannot be judged fails, and
counts neither for nor against a document.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from skillopt.aio import in_thread
from skillopt.core.chat import Model
from skillopt.core.episode import EpisodeNeed, Workspace
from skillopt.core.intake import MIB
from skillopt.core.ports import Environment, Sandbox
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.task import Gold, Task
from skillopt.envs.judge import Judge
from skillopt.envs.metrics import equal, extract_answer, f1, verdict
from skillopt.envs.swebench.repository import Checkout, checked_out, commit_of, git
from skillopt.errors import EnvironmentFault
from skillopt_sleep.checks import evaluate, told
from skillopt_sleep.values import Check, MinedTask, Reference, Split

_INSTRUCTIONS: Final = """\
You help a user with their work. Do what the request asks for. Your reply is what the user gets: no
remarks about the request, no questions back.
"""
_WITH_FOLDER: Final = """\
You work in a copy of the user's project; change files there where the request asks for it.
"""
_IN_FOLDER: Final = "The request was made in the folder `{folder}` of this copy."
_RUBRIC: Final = """\
The block "reference answer" holds the criteria for this task. The verdict is `met` if the answer
meets all of them, `partly` if it meets some, `missed` if it meets none, refuses, or says only that
it would do the work."""
_VERDICTS: Final = {"met": 1.0, "partly": 0.5, "missed": 0.0}
_SLOT: Final = "{skill_section}"
_TOKENS: Final = 2000.0
_SECONDS: Final = 15.0
"""What an ordinary attempt takes: one that takes as much earns half of what cheapness is worth."""
_COPY_BYTES: Final = 64 * MIB
_COPY_FILES: Final = 4000
_NOT_STARTED: Final = frozenset((125, 126, 127))
"""What a shell says when the command could not be run at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """Accuracy, tokens and latency as one number from 0 to 1.

    Only what is right earns by being cheap: nothing is gained by failing fast.
    """

    accuracy: float = 1.0
    tokens: float = 0.0
    latency: float = 0.0

    def __call__(self, accuracy: float, tokens: int, seconds: float) -> float:
        parts = (1.0, _TOKENS / (_TOKENS + tokens), _SECONDS / (_SECONDS + max(0.0, seconds)))
        weights = (self.accuracy, self.tokens, self.latency)
        whole = sum(weights) or 1.0
        earned = sum(weight * part for weight, part in zip(weights, parts, strict=True))
        return accuracy * earned / whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How mined tasks are attempted; all of it affects scores."""

    standing: str = ""
    """What the agent is told besides the document that is learnt: the rest of its files."""
    in_project: bool = False
    """Whether attempts get a copy of the project to work in."""
    dream_rollouts: int = 1
    """Attempts at each training task."""
    reward: Reward | None = None
    """What soft scores are; none: the share of the reference that is met."""
    command_seconds: float = 300.0


class MinedTasks:
    """An environment over tasks that were mined from sessions."""

    initial_skill: Path | None = None
    prompts: Path | None = None
    name = "sleep"

    def __init__(
        self,
        tasks: Sequence[MinedTask],
        settings: ReplaySettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or ReplaySettings()
        self._clock = clock
        self._mined = {_safe(task.id): task for task in tasks}
        self._judge: Judge | None = None
        self._sandbox: Sandbox | None = None
        self._unchanged_ends: dict[str, bool] = {}

    @property
    def fingerprint(self) -> str:
        settings = json.dumps(asdict(self._settings), sort_keys=True)
        said = json.dumps([_INSTRUCTIONS, _WITH_FOLDER, _IN_FOLDER, settings])
        judged = "" if self._judge is None else f"/judge={self._judge.fingerprint}"
        return f"sleep/1/{hashlib.sha256(said.encode()).hexdigest()[:16]}{judged}"

    @property
    def needs(self) -> tuple[EpisodeNeed, ...]:
        return ("workspace",) if self._settings.in_project else ()

    @property
    def roles(self) -> tuple[str, ...]:
        kinds = {task.reference.kind for task in self._mined.values()}
        return ("judge",) if "rubric" in kinds else ()

    def with_models(self, models: Mapping[str, Model]) -> MinedTasks:
        judged = copy(self)
        if self.roles:
            judged._judge = Judge(models["judge"], _RUBRIC, tuple(_VERDICTS))
        return judged

    def with_sandbox(self, sandbox: Sandbox) -> Environment:
        made = copy(self)
        made._sandbox = sandbox
        return made

    def tasks(self, split: Split) -> Sequence[Task]:
        chosen = [(name, task) for name, task in self._mined.items() if task.split == split]
        times = self._settings.dream_rollouts if split == "train" else 1
        return [
            Task(
                name if number == 1 else f"{name}~{number}",
                task.skill_hint or next(iter(task.tags), "default"),
                {"mined": name, "content": _content(task)},
            )
            for name, task in chosen
            for number in range(1, times + 1)
        ]

    def gold(self, task: Task) -> Gold | None:
        reference = self._task(task).reference
        if reference.kind != "exact":
            return None
        return Gold(answers=(reference.text,), reply=reference.text)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[ReplayEpisode, None]:
        mined, started = self._task(task), self._clock()
        if not self._settings.in_project:
            yield ReplayEpisode(self, mined, started)
            return
        if await _has(mined.project, "HEAD"):
            top, folder = await _within(mined.project)
            async with checked_out(top, mined.commit or "HEAD") as base:
                checkout = Checkout(self._need_sandbox(), base, _python_of(mined.project))
                yield ReplayEpisode(self, mined, started, checkout.files(), checkout, folder)
        else:
            yield ReplayEpisode(self, mined, started, _copied(mined.project))

    def _task(self, task: Task) -> MinedTask:
        return self._mined[str(task.data["mined"])]

    def _need_sandbox(self) -> Sandbox:
        if self._sandbox is None:
            raise EnvironmentFault("work in a copy of the project needs the sandbox of a run")
        return self._sandbox

    def instructions(self) -> str:
        settings = self._settings
        told = _INSTRUCTIONS + (_WITH_FOLDER if settings.in_project else "")
        standing = settings.standing.strip()
        return f"{told}\n## Standing notes\n\n{standing}\n" if standing else told

    async def judged(self, mined: MinedTask, episode: ReplayEpisode, done: Trajectory) -> Score:
        """The score of an attempt by the reference of its task."""
        score = await self._accuracy(mined, episode, done)
        reward = self._settings.reward
        if reward is None:
            return score
        tokens = done.usage.input + done.usage.output
        earned = reward(score.soft, tokens, self._clock() - episode.started)
        return Score(score.hard, earned, score.feedback)

    async def _accuracy(self, mined: MinedTask, episode: ReplayEpisode, done: Trajectory) -> Score:
        reference, answer = mined.reference, done.answer
        if reference.kind == "command":
            return await self._tested(mined, episode, done)
        if not answer.strip():
            return Score(0, 0, "empty: there is no answer")
        match reference.kind:
            case "exact":
                return _exact(answer, reference.text)
            case "rule":
                return await _by_rules(reference.checks, answer, _tools(done))
            case "rubric":
                return await self._by_rubric(mined, answer)
            case _:
                raise EnvironmentFault(f"task {mined.id} has no reference to judge by")

    async def _by_rubric(self, mined: MinedTask, answer: str) -> Score:
        if self._judge is None:
            raise EnvironmentFault(f"task {mined.id} needs the judge model of a run")
        verdict = await self._judge.ask(
            question=_brief(mined), answer=answer, references=(mined.reference.text,)
        )
        soft = _VERDICTS[verdict.word]
        return Score(float(soft == 1), soft, f"{verdict.word}: {verdict.reason}")

    async def _tested(self, mined: MinedTask, episode: ReplayEpisode, done: Trajectory) -> Score:
        """Run the command in the project as the agent left it."""
        checkout, command = episode.checkout, mined.reference.text
        if checkout is None:
            raise EnvironmentFault(
                f"task {mined.id} is checked by a command, which needs a copy of the git "
                f"repository {mined.project}"
            )
        script = f"cd -- {shlex.quote(episode.folder or '.')} || exit 1\n{command}"
        seconds = self._settings.command_seconds
        left = {path: data for path, data in done.files.items() if not path.startswith(".git/")}
        patch = await checkout.patch_of(left, seconds) if left else b""
        result = await checkout.tested(patch, script, seconds)
        told = (result.stdout + result.stderr).strip()[-600:]
        if result.status in _NOT_STARTED:
            raise EnvironmentFault(f"`{command}` cannot be run here: {told}")
        if result.ended_by and not await self._ends_unchanged(mined, checkout, script, seconds):
            raise EnvironmentFault(f"`{command}` does not end within its limits here")
        if result.status == 0 and not result.ended_by:
            return Score(1, 1, f"passed: {command}")
        return Score(0, 0, f"failed: {command} (status {result.status}): {told}")

    async def _ends_unchanged(
        self, mined: MinedTask, checkout: Checkout, script: str, seconds: float
    ) -> bool:
        """Whether the command ends in the untouched project, so that the agent is to blame."""
        if mined.id not in self._unchanged_ends:
            result = await checkout.tested(b"", script, seconds)
            self._unchanged_ends[mined.id] = not result.ended_by
        return self._unchanged_ends[mined.id]


@dataclass(frozen=True, slots=True)
class ReplayEpisode:
    """A mined task, opened for one attempt."""

    environment: MinedTasks
    mined: MinedTask
    started: float
    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    checkout: Checkout | None = None
    folder: str = ""
    """Where in the copy the request was made; empty: at its top."""

    @property
    def instructions(self) -> str:
        return self.environment.instructions()

    @property
    def brief(self) -> str:
        brief = _brief(self.mined)
        return f"{brief}\n\n{_IN_FOLDER.format(folder=self.folder)}" if self.folder else brief

    @property
    def workspace(self) -> Workspace | None:
        if not self.environment.needs:
            return None
        return Workspace(
            files=self.given, collect=("*",), max_file_bytes=_COPY_BYTES, max_bytes=_COPY_BYTES
        )

    async def score(self, trajectory: Trajectory) -> Score:
        return await self.environment.judged(self.mined, self, trajectory)


async def obstacles(tasks: Sequence[MinedTask], *, in_project: bool) -> list[str]:
    """Why each task cannot be attempted again and judged; empty if it can."""
    gone: dict[tuple[Path, str, bool], str] = {}
    found: list[str] = []
    for task in tasks:
        why = replayable(task, in_project=in_project)
        if in_project and not why:
            place = (task.project, task.commit, task.reference.kind == "command")
            if place not in gone:
                gone[place] = await _gone(*place)
            why = gone[place]
        found.append(why)
    return found


def replayable(task: MinedTask, *, in_project: bool) -> str:
    """Why a task cannot be attempted again and judged, by what it says; empty if it can."""
    if task.reference.kind == "none":
        return "nothing says what a right answer is"
    if task.reference.kind == "command" and not in_project:
        return "its check is a command, which needs replay in the project"
    return ""


async def _gone(project: Path, commit: str, tested: bool) -> str:  # noqa: FBT001 - a place
    """What of a task's project is not there; empty if it can be copied as it was."""
    if not await in_thread(project.is_dir):
        return "its project is not there"
    if commit and not await _has(project, commit):
        return "the commit that it began from is not in the repository"
    if tested and not await _has(project, "HEAD"):
        return "its check is a command, which needs a git repository"
    return ""


def _brief(task: MinedTask) -> str:
    system = task.system.replace(_SLOT, "").strip()
    context = f"## Context\n\n{task.context.strip()}" if task.context.strip() else ""
    request = f"## Request\n\n{task.intent.strip()}" if system or context else task.intent.strip()
    return "\n\n".join(part for part in (system, context, request) if part)


def _exact(answer: str, gold: str) -> Score:
    """The whole answer or its last line is the reference, but for spaces and capitals."""
    last = extract_answer(answer)
    right = equal(answer, [gold]) or equal(last, [gold])
    return verdict(last, [gold], float(right), 1.0 if right else f1(last, [gold]) / 2)


async def _by_rules(checks: Sequence[Check], answer: str, tools: Collection[str]) -> Score:
    results = await evaluate(checks, answer, tools)
    failed = [told(result.check) for result in results if not result.passed]
    if not results:
        raise EnvironmentFault("a reference by rules has no rules")
    if not failed:
        return Score(1, 1, "passed")
    soft = 1 - len(failed) / len(results)
    return Score(0, soft, f"not met: it should be that the answer {'; '.join(failed)}")


def _tools(done: Trajectory) -> list[str]:
    """Tools that were really called; what an answer says about itself does not count."""
    return [call.name for message in done.messages for call in message.calls]


def _content(task: MinedTask) -> str:
    """Everything that a score depends on, for the digest of the task."""
    reference: Reference = task.reference
    checks = [[check.op, check.arg] for check in reference.checks]
    parts = [_brief(task), reference.kind, reference.text, checks, str(task.project), task.commit]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _safe(name: str) -> str:
    """The id as a file name."""
    if name and not name.startswith(".") and not set(name) & set("/\\\0~") and len(name) < 100:
        return name
    return f"task_{hashlib.sha256(name.encode()).hexdigest()[:12]}"


async def _has(folder: Path, commit: str) -> bool:
    """Whether a folder is in a commit of its repository."""
    try:
        found = await commit_of(folder, commit)
        await git("rev-parse", "--verify", f"{found}:./", folder=folder)
    except EnvironmentFault:
        return False
    return True


async def _within(folder: Path) -> tuple[Path, str]:
    """The top of a repository, and the way from there to a folder of it."""
    top, way = (
        await git("rev-parse", "--show-toplevel", "--show-prefix", folder=folder)
    ).splitlines()
    return Path(top), way.rstrip("/")


def _python_of(project: Path) -> Path:
    """The virtual environment of the project, or ours."""
    own = next((project / name for name in (".venv", "venv") if (project / name).is_dir()), None)
    return own if own is not None and (own / "bin/python").exists() else Path(sys.prefix)


def _copied(folder: Path) -> dict[str, bytes]:
    """The files of a folder without history, hidden ones left out."""
    found: dict[str, bytes] = {}
    size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(place) / name for name in sorted(names) if not name.startswith(".")):
            if path.is_symlink() or not path.is_file():
                continue
            size += path.stat().st_size
            if size > _COPY_BYTES or len(found) >= _COPY_FILES:
                raise EnvironmentFault(
                    f"{folder} is too large to be copied for an attempt; make it a git repository "
                    "or replay without tools (replay: model)"
                )
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found
