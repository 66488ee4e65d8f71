"""Connects all parts of a training run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import cast

from skillopt import __version__
from skillopt.aio import TaskGroup, map_all, task_group
from skillopt.analysis.report import figures
from skillopt.app.environment import cut_folder, validation_tasks, with_models, write_cut
from skillopt.app.judging import gates, halving_schedule, metric, parents, pruner, replication
from skillopt.app.models import PUBLISHED, ModelFactory, open_workshop, preflight, public_texts
from skillopt.app.policies import limits, meta_reflector, pipeline, reviewer, shortener
from skillopt.app.reach import no_room
from skillopt.app.rest import rest
from skillopt.app.result import Result
from skillopt.app.run_spec import RunSpec
from skillopt.app.settled import settled, told
from skillopt.app.speculating import speculates
from skillopt.config.schema import RETIRED, Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.events import Begun, Event, Finished, Signal, Started, Stopped, Warned
from skillopt.core.intake import Json, change_texts
from skillopt.core.ports import Executor, Harness, Watcher
from skillopt.core.sink import Clean, E, EventSink
from skillopt.core.state import State, replay
from skillopt.datasets.manifests import check_manifest_place
from skillopt.datasets.splits import SPLITS
from skillopt.engine.halving import SuccessiveHalving
from skillopt.engine.loop import train
from skillopt.engine.prefetch import Prefetch
from skillopt.engine.run import TrainingRun, check_same_run
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.errors import BudgetSpent, StoreError
from skillopt.model.budget import Budget, Meter
from skillopt.prompts.ask import Asker
from skillopt.store import codec
from skillopt.store.cache import ReuseCount
from skillopt.store.events import EventFile
from skillopt.store.files import write_json
from skillopt.store.handoff import FolderQueue
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.progress import ProgressFile
from skillopt.store.projector import Projector
from skillopt.store.run_history import RunHistory, useless


@dataclass(frozen=True, slots=True)
class Training:
    """A run ready to go, or to go on."""

    brief: RunSpec
    run: TrainingRun
    budget: Budget
    layout: Layout
    repaired: tuple[Path, ...]
    """Files of the run directory that were missing or damaged and were written anew."""
    reused: ReuseCount
    """What this process found finished."""
    models: Mapping[Role, Model]
    """Those to be tried before work is paid for: all but the caller's own."""
    secrets: Secrets

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of so far, by earlier processes too."""
        return tuple(RunHistory.of(self.run.sink.record.events()).warnings)

    def warn(self, texts: Iterable[str]) -> None:
        """Note what was not warned of yet."""
        known = self.warnings
        for note in (self.run.sink.clean(Warned(text)) for text in texts):
            if note.text not in known:
                self.run.sink.note(note)

    @property
    def meter(self) -> Meter:
        """What was paid so far."""
        return self.budget.meter

    async def preflight_attempts(self) -> None:
        """Try the models that make and score attempts."""
        called = [model for role, model in self.models.items() if role != "optimizer"]
        await map_all(preflight, called)

    async def go(self) -> State:
        """Train to the end of the plan, from wherever the record ends."""
        before = replay(self.run.sink.record.events())
        unfinished = before is None or self.run.plan.next(before) is not None
        if unfinished:
            self.run.enter("preflight")
            await map_all(preflight, list(self.models.values()))
            self.run.sink.note(Started(_now(), __version__, _sources(self.brief)))
            self.warn(self.brief.warnings)
            self.warn([PUBLISHED] if self.secrets.published else [])
            if before is not None:
                self.warn(no_room(self.brief.config, self.run.plan, before))
        try:
            state = await train(self.run, self.brief.skill)
        except BaseException as error:
            if self.run.sink.begun:
                left = await rest(self.brief) if isinstance(error, BudgetSpent) else None
                why = f"{type(error).__name__}: {error}".strip(": ")
                self.run.sink.note(Stopped(why, _now(), left))
            raise
        if exceeded := self.budget.exceeded:
            self.warn([exceeded])
        if unfinished:
            self.run.sink.note(Finished(_now()))
        return state


@asynccontextmanager
async def open_training(
    brief: RunSpec, watch: Watcher, secrets: Secrets | None = None
) -> AsyncGenerator[Training, None]:
    """Lock the run directory, connect the models, and put the run together."""
    layout = Layout(brief.out)
    with RunLock(brief.out), ProgressFile(layout.progress) as progress:
        watch = _all(progress, watch)
        _check_cut(brief)
        record = EventFile(layout.events)
        config, queue = brief.config, FolderQueue(layout.handoff)
        workshop = open_workshop(
            config,
            layout,
            brief.caps,
            public_texts(brief.world.environment, brief.skill),
            secrets,
            queue,
            watch,
        )
        async with (
            workshop as shop,
            _executor(brief, shop.budget) as executor,
            task_group() as group,
        ):
            models = _models(brief, shop.board)
            hide = shop.board.secrets.hide_values
            harness = shop.harness(models["target"], brief.supplied.harness)
            known = identity_of(brief, harness, models)
            identity: Mapping[str, str] = {key: hide(value) for key, value in known.items()}
            before = replay(record.events())
            if before is not None:
                identity = _checked_identity(identity, before, brief.out)
            projector = Projector(
                layout,
                shop.cache,
                _hidden(told(brief), hide),
                extra=figures,
                document=hide(settled(brief).dump()),
            )
            repaired = tuple(projector.rebuild(record.events()))
            sink = EventSink(record, watch, _cleaning(hide))
            environment = with_models(brief.world.environment, models)
            runner = shop.runner(harness, environment, sink, executor)
            shown = limits(config.gradient)
            asker = Asker(models["optimizer"], brief.prompts, sink, shown)
            tasks = {task.id: task for task in brief.world.environment.tasks("train")}
            target_probe = LiveTargetProbe(runner=runner, target=models["target"], tasks=tasks)
            run = _run(brief, identity, target_probe, asker, group)
            own = brief.supplied.models
            called: dict[Role, Model] = {role: models[role] for role in models if role not in own}
            reused = shop.cache.reused
            training = Training(
                brief, run, shop.budget, layout, repaired, reused, called, shop.board.secrets
            )
            sink.watch = _all(projector, _cut(brief, hide), watch, _room(training))
            _follow(training, before, progress)
            yield training


def _unwarned(_: str) -> None:
    """Nobody wants to know."""


async def run_training(
    brief: RunSpec,
    *,
    watch: Watcher,
    warn: Callable[[str], None] = _unwarned,
    opened: Callable[[Training], None] | None = None,
    secrets: Secrets | None = None,
) -> Result:
    """Begin or continue a training that was read and checked.

    Args:
        brief: What `Inputs.prepare` has made.
        watch: Called with every event of the run as it happens.
        warn: Called once with each warning, those of earlier starts included.
        opened: Called when the run directory is locked and before any work.
        secrets: Variables of the environment that were read already.
    """
    told: set[str] = set()

    def tell(texts: Iterable[str]) -> None:
        for text in texts:
            if text not in told:
                told.add(text)
                warn(text)

    def see(event: Event | Signal) -> None:
        watch(event)
        if isinstance(event, Warned):
            tell([event.text])

    tell(brief.warnings)
    async with open_training(brief, see, secrets) as training:
        tell(training.warnings)
        if opened is not None:
            opened(training)
        state = await training.go()
        problem = useless(training.run.sink.record.events())
        warnings = (*brief.warnings, *training.warnings, *([problem] if problem else []))
        return Result(
            best_skill=state.best.skill.render(),
            state=state,
            out=training.layout.root,
            spent=training.meter.total,
            problem=problem,
            warnings=tuple(dict.fromkeys(warnings)),
        )


def _checked_identity(identity: Mapping[str, str], before: State, out: Path) -> Mapping[str, str]:
    """The identity with the retired settings of the record; refused if it is another run's."""
    _check_version(before.identity, out)
    retired = {key: value for key, value in before.identity.items() if key in RETIRED}
    identity = {**identity, **retired}
    check_same_run(identity, before.identity, Config().identity())
    return identity


def _follow(training: Training, before: State | None, progress: ProgressFile) -> None:
    """Have the cost and the operations of the plan reported; the baseline is one of them."""
    plan = training.brief.plan
    total = 1 + len(plan.moves)
    done = 0 if before is None else total - len(plan.left(before))
    progress.follow(lambda: training.meter.total, done=done, total=total)


def _executor(brief: RunSpec, budget: Budget) -> AbstractAsyncContextManager[Executor | None]:
    opened = brief.supplied.executor
    return nullcontext() if opened is None else opened(budget)


_TARGET = "target model"


def _hidden(values: Mapping[str, object], hide: Callable[[str], str]) -> dict[str, object]:
    """Settings without the values of secrets."""
    return {key: change_texts(cast("Json", value), hide) for key, value in values.items()}


def _cleaning(hide: Callable[[str], str]) -> Clean:
    def clean(event: E, /) -> E:
        return cast("E", codec.events().without(event, hide))

    return clean


def _check_version(identity: Mapping[str, str], out: Path) -> None:
    """Refuse a record from before runs were recognised by fingerprints."""
    if _TARGET not in identity:
        raise StoreError(
            f"{out} holds a run of an earlier version of skillopt, which did not record what its "
            "models were asked with, so it cannot be continued. Choose another env.out_root to "
            "start anew, or finish the run with that version. `skillopt show` can still read it."
        )


def identity_of(
    brief: RunSpec, harness: Harness, models: Mapping[Role, Model]
) -> Mapping[str, str]:
    """What makes a run this run: its settings, and who takes part in its scores."""
    others = {f"{role} model": models[role].fingerprint for role in models if role != "target"}
    return {**brief.identity, _TARGET: harness.fingerprint, **others}


def _run(
    brief: RunSpec,
    identity: Mapping[str, str],
    target_probe: LiveTargetProbe,
    asker: Asker,
    group: TaskGroup,
) -> TrainingRun:
    config, environment = brief.config, brief.world.environment
    gate, slow_gate = gates(config)
    way = halving_schedule(config)
    return TrainingRun(
        runner=target_probe.runner,
        plan=brief.plan,
        val=validation_tasks(config, environment),
        optimizer=pipeline(config, target_probe, asker),
        reviewer=reviewer(config.optimizer, asker),
        gate=gate,
        slow_gate=slow_gate,
        guides_best=not config.optimizer.slow_update_gate_with_selection,
        meta_reflector=meta_reflector(config.optimizer, asker),
        pruner=pruner(config, target_probe),
        replication=replication(config),
        identity=identity,
        defaults=Config().identity(),
        shortener=shortener(config, asker),
        speculation=Prefetch(target_probe.runner, group) if speculates(config) else None,
        race=None
        if way is None
        else SuccessiveHalving(runner=target_probe.runner, schedule=way, gate=gate),
        parents=parents(config),
        soft_weight=metric(config).soft_weight,
    )


def _sources(brief: RunSpec) -> dict[str, str | None]:
    """Who says what each role costs; None: nobody."""
    known = {role: price.source for role, price in brief.prices.items()}
    return {role: known.get(role) for role in brief.roles}


def _models(brief: RunSpec, board: ModelFactory) -> Mapping[Role, Model]:
    config, own = brief.config, brief.supplied.models
    most: dict[Role, int] = {"optimizer": config.gradient.analyst_workers}
    return {
        role: board.model_for(config.model.role(role), own.get(role), concurrency=most.get(role))
        for role in brief.roles
    }


def _cut(brief: RunSpec, hide: Callable[[str], str]) -> Watcher:
    """Writes the split manifest and the places of items once the run has really begun."""

    def watch(event: Event | Signal) -> None:
        if not isinstance(event, Begun):
            return
        tasks = (task for split in SPLITS for task in brief.world.environment.tasks(split))
        if places := {task.id: hide(task.told) for task in tasks if task.where}:
            write_json(Layout(brief.out).places, places)
        if brief.supplied.splits is None:
            write_cut(brief.config, brief.out, brief.world.splits)

    return watch


def _room(training: Training) -> Watcher:
    """Warns as soon as the baseline is known, where it leaves the gate no room."""

    def watch(event: Event | Signal) -> None:
        if isinstance(event, Begun):
            brief = training.brief
            training.warn(no_room(brief.config, brief.plan, State.after(event)))

    return watch


def _check_cut(brief: RunSpec) -> None:
    """Find out now, not after the baseline was paid for, that the cut cannot be written down."""
    folder = cut_folder(brief.config, brief.out, brief.world.splits)
    if folder is not None and brief.supplied.splits is None:
        check_manifest_place(folder, brief.world.splits)


def _all(*watchers: Watcher) -> Watcher:
    def watch(event: Event | Signal) -> None:
        for each in watchers:
            each(event)

    return watch


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
