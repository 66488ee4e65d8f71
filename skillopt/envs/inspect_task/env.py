"""Any task of Inspect AI as an environment: its samples, its prompts, its scorer."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

from typing_extensions import Self

from skillopt.core.chat import Model
from skillopt.core.extras import install_command
from skillopt.core.ports import Episode
from skillopt.core.task import Gold, Split, Task
from skillopt.datasets.rows import Row, rows_of
from skillopt.datasets.splits import Splits
from skillopt.envs.dataset import Tasks, fingerprint
from skillopt.envs.inspect_task.bridge import InspectEpisode
from skillopt.errors import ConfigError, DataError, SkilloptError

_SANDBOX = "needs a sandbox of Inspect, which is not supported"


class InspectTask:
    """Hard: full marks of the task's first scorer. Soft: its value."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        """Which task, and how it is made."""

        task: str = ""
        """`module@task` or `file.py@task`."""
        task_args: Mapping[str, object] = field(default_factory=dict[str, object])
        """Arguments of the task."""
        use_judge: bool = False
        """Whether its scorer asks a model: the judge of the run then answers."""

    initial_skill: ClassVar[Path | None] = None
    prompts: ClassVar[Path | None] = None
    name = "inspect"

    def __init__(self, settings: InspectTask.Settings, splits: Splits) -> None:
        self._settings, self._judge = settings, None
        self._inspect, self._task, code = _load(settings)
        self._samples = list(self._task.dataset)
        self._own = f"{fingerprint(self.name, asdict(settings))}/code={code}"
        self._tasks = Tasks.of(splits, self._make)

    @staticmethod
    def own_rows(settings: InspectTask.Settings) -> list[Row]:
        """The samples of the task; nothing else is read."""
        _, task, _ = _load(settings)
        rows: list[Mapping[str, object]] = []
        for number, sample in enumerate(task.dataset):
            told = sample.model_dump(include={"input", "target", "choices", "metadata"})
            name = str(number + 1 if sample.id is None else sample.id)
            name = "-".join(name.replace("/", " ").replace("\\", " ").split())
            plain = json.loads(json.dumps(told, default=str))
            rows.append({"id": name, "sample": number, **plain})
        return rows_of(rows, settings.task)

    @property
    def fingerprint(self) -> str:
        judged = "" if self._judge is None else f"/judge={self._judge.fingerprint}"
        return f"{self._own}{judged}"

    @property
    def roles(self) -> tuple[str, ...]:
        return ("judge",) if self._settings.use_judge else ()

    def with_models(self, models: Mapping[str, Model]) -> Self:
        judged = copy(self)
        judged._judge = models["judge"]
        return judged

    def tasks(self, split: Split) -> tuple[Task, ...]:
        return self._tasks.splits[split]

    def gold(self, task: Task) -> Gold | None:
        """The target, which a scorer may compare in any way."""
        target = task.data.get("target") or ""
        many = cast("list[object]", target) if isinstance(target, list) else [target]
        texts = tuple(map(str, many))
        return Gold(answers=texts) if any(texts) else None

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Episode, None]:
        number = task.data["sample"]
        sample = self._samples[number if isinstance(number, int) else 0]
        episode = InspectEpisode(self._inspect, self._task, sample, self._judge)
        try:
            await episode.start()
            yield episode
        finally:
            await episode.close()

    def _make(self, name: str, row: Row) -> Task:
        number = row.data.get("sample")
        if not isinstance(number, int) or not 0 <= number < len(self._samples):
            raise DataError(f"{row.where}: 'sample' is no number of a sample of the task")
        sample = self._samples[number]
        if sample.sandbox is not None or sample.files or sample.setup:
            raise DataError(f"{row.where}: the sample {_SANDBOX}")
        return Task(name, "default", row.data)


def _load(settings: InspectTask.Settings) -> tuple[Any, Any, str]:
    """The package, the task, and what its code is."""
    place, at, name = settings.task.rpartition("@")
    if not at or not place or not name:
        raise ConfigError(f"env.task: {settings.task!r} names no task; write module@task")
    try:
        installed = version("inspect-ai")
    except PackageNotFoundError:
        raise ConfigError(
            f"env.name inspect needs a package: {install_command('inspect')}"
        ) from None
    inspect = importlib.import_module("inspect_ai")
    for part in ("model", "solver", "scorer", "tool"):
        importlib.import_module(f"inspect_ai.{part}")
    try:
        module = _module(place)
        task: Any = getattr(module, name)(**settings.task_args)
    except SkilloptError:
        raise
    except (Exception, SystemExit) as error:  # by mistake of who wrote the task
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"env.task: {settings.task} cannot be made ({reason})") from error
    if not isinstance(task, inspect.Task):
        raise ConfigError(f"env.task: {settings.task} is no task of Inspect")
    if not task.scorer:
        raise ConfigError(f"env.task: {settings.task} has no scorer")
    if task.sandbox is not None:
        raise ConfigError(f"env.task: {settings.task} {_SANDBOX}")
    source = Path(module.__file__).read_bytes() if module.__file__ else b""
    return inspect, task, f"{installed}-{hashlib.sha256(source).hexdigest()[:12]}"


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        return importlib.import_module(place)
    file = Path(place).expanduser()
    if not file.is_file():
        raise ConfigError(f"env.task: there is no file {file}")
    name = f"skillopt_inspect_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise ConfigError(f"env.task: {file} is no Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module
