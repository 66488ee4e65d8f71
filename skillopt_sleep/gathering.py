"""What a night sets out from: the sessions since the last one, and the tasks in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from skillopt.aio import in_thread
from skillopt.app.inputs import Inputs, configured
from skillopt.app.models import check_backends, preflight, with_backend_defaults
from skillopt.app.resources import open_resources
from skillopt.app.run_spec import parts_of
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Usage
from skillopt.core.ports import Watcher
from skillopt.core.sink import EventSink, MemoryLog
from skillopt.core.wording import counted
from skillopt.datasets.splits import Splits
from skillopt.errors import BudgetSpent
from skillopt.store.files import write_atomic
from skillopt.store.handoff import FolderQueue
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt_sleep.environment import MinedTasks
from skillopt_sleep.harvest import Harvest, harvest
from skillopt_sleep.mining import mine
from skillopt_sleep.model_mining import mine_with_model
from skillopt_sleep.models import Allowance, NightModels, has_models, model_settings
from skillopt_sleep.settings import Settings
from skillopt_sleep.state import kept_in
from skillopt_sleep.task_file import read_tasks, require_reviewed
from skillopt_sleep.values import MinedTask, Session
from skillopt_sleep.wording import in_our_words

_HARVEST: Final = TypeAdapter(Harvest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Sessions and tasks of a night, as they are kept in its folder."""

    sessions: int = 0
    sources: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sessions by source, the most frequent first."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sessions that were left out, by reason."""
    tasks: tuple[MinedTask, ...] = ()
    notices: tuple[str, ...] = ()
    checkpoint: float | None = None
    """Up to when sessions were taken, in seconds of the epoch."""
    spent: Usage = field(default_factory=Usage)
    """What mining took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miner:
    """Who generalises tasks, and where what that takes is written down."""

    folder: Path
    check: Callable[[Sequence[str]], object] = lambda sources: None
    """Called with the sources before anything is spent: it raises if that would be in vain."""
    models: NightModels = field(default_factory=NightModels)
    watch: Watcher | None = None
    secrets: Secrets | None = None


async def gather(
    settings: Settings, since: float | None, now: datetime, miner: Miner | None
) -> Gathered:
    """The sessions after `since` (seconds of the epoch), and their tasks.

    Without a miner, no model is asked and nothing is written.

    Raises:
        ConfigError: A source or a backend cannot be used.
        DataError: The task file cannot be used, or nobody has reviewed it.
        Pending: The user's agent has questions to answer (backend `handoff`).
    """
    if settings.tasks_file is not None:
        return _from_file(settings, settings.tasks_file, asks=miner is not None)
    found = await in_thread(_harvested, settings, since, now, miner)
    counts = Counter(session.source for session in found.sessions)
    notices = list(found.notices)
    if found.left:
        notices.append(f"left for later nights: {counted(found.left, 'session')} (max_sessions)")
    if miner is not None:
        miner.check([name for name, _ in counts.most_common()])
    tasks, spent, told = await _mined(found.sessions, settings, miner)
    return Gathered(
        sessions=len(found.sessions),
        sources=dict(counts.most_common()),
        skipped=found.skipped,
        tasks=tasks,
        notices=(*notices, *told),
        checkpoint=None if found.checkpoint is None else found.checkpoint.timestamp(),
        spent=spent,
    )


def _from_file(settings: Settings, path: Path, *, asks: bool) -> Gathered:
    file = read_tasks(path)
    if asks:
        require_reviewed(path, file)
    sources = {file.source: file.sessions} if file.source else {}
    return Gathered(sessions=file.sessions, sources=sources, tasks=file.tasks)


def _harvested(
    settings: Settings, since: float | None, now: datetime, miner: Miner | None
) -> Harvest:
    """The sessions of the night: those that it began with, if it has begun.

    Otherwise the session in which the user's agent answers our questions would change them.
    """
    pinned = None if miner is None else miner.folder / "sessions.json"
    if pinned is not None and pinned.exists():
        return kept_in(pinned, _HARVEST)
    start = None if since is None else datetime.fromtimestamp(since, timezone.utc)
    found = harvest(settings, start, now)
    if pinned is not None:
        write_atomic(pinned, _HARVEST.dump_json(found))
    return found


async def _mined(
    sessions: Sequence[Session], settings: Settings, miner: Miner | None
) -> tuple[tuple[MinedTask, ...], Usage, list[str]]:
    """Tasks, what finding them took, and what is to be told about that."""
    asks = settings.llm_mine and miner is not None and has_models(settings, miner.models)
    if not asks or miner is None or not sessions:
        return mine(sessions, settings), Usage(), []
    layout = Layout(miner.folder / "mining")
    secrets = miner.secrets or Secrets.load(settings.project)
    inputs = Inputs(
        environment=MinedTasks(()),
        settings={
            **model_settings(settings, miner.models),
            **Allowance.of(settings).share(2).settings(),
            "env.out_root": str(layout.root),
        },
    )
    for role in ("target", "optimizer"):
        if (given := getattr(miner.models, role)) is not None:
            inputs[role] = given
    config, supplied = configured(None, inputs)
    config = with_backend_defaults(config, secrets)
    parts = parts_of(config, supplied, ("optimizer",), MinedTasks(()), Splits((), ()))
    check_backends(config, [role for role in parts.roles if role not in parts.supplied.models])
    watch = miner.watch or _ignore
    queue = FolderQueue(layout.handoff)
    told: list[str] = []
    with RunLock(layout.root):
        async with open_resources(parts, layout, None, secrets, queue, watch) as resources:
            resources.cache.enter("mine")
            model = resources.models()["optimizer"]
            try:
                if "optimizer" not in parts.supplied.models:
                    await preflight(model)
                result = await mine_with_model(
                    sessions,
                    settings,
                    model,
                    EventSink(MemoryLog(), watch),
                    () if settings.prompts is None else (settings.prompts,),
                )
                tasks = result.tasks
                if result.unusable:
                    told.append(f"not usable: {counted(result.unusable, 'answer')} of the miner")
            except BudgetSpent as error:
                tasks = mine(sessions, settings)
                told.append(f"tasks were mined without a model: {in_our_words(str(error))}")
            spent = sum(resources.cache.spent().values(), Usage())
    return tasks, spent, told


def _ignore(_: object) -> None:
    """Nobody is told."""
