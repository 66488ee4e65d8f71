"""Connects all parts of a training run."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import cast

from skillopt import __version__
from skillopt.aio import TaskGroup, map_all
from skillopt.analysis.report import figures
from skillopt.app.environment import validation_tasks, with_found_paths, with_models
from skillopt.app.gating import gates, halving_schedule, metric, parents, pruner, replication
from skillopt.app.models import preflight
from skillopt.app.optimizing import limits, optimizer_parts
from skillopt.app.reach import no_room
from skillopt.app.resources import PUBLISHED, open_resources
from skillopt.app.rest import rest
from skillopt.app.result import Result
from skillopt.app.run_spec import RunSpec
from skillopt.app.speculating import hindrance, speculates
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.events import Begun, Event, Finished, Signal, Started, Stopped, Warned
from skillopt.core.intake import Json, change_texts
from skillopt.core.memory import Memory
from skillopt.core.paths import STARTED_IN
from skillopt.core.ports import Harness, Watcher
from skillopt.core.sink import Clean, E, EventSink
from skillopt.core.state import State, replay
from skillopt.datasets.manifests import check_manifest_place, write_manifest
from skillopt.datasets.splits import SPLITS
from skillopt.engine.halving import SuccessiveHalving
from skillopt.engine.loop import train
from skillopt.engine.plan import Step
from skillopt.engine.prefetch import Prefetch
from skillopt.engine.run import TrainingRun, check_same_run
from skillopt.engine.target_probe import LiveTargetProbe
from skillopt.errors import BudgetSpent, StoreError
from skillopt.model.budget import Budget, Meter
from skillopt.optimizer.rounds import Reserve
from skillopt.prompts.ask import Asker
from skillopt.store import codec
from skillopt.store.cache import ReuseCount
from skillopt.store.events import EventFile
from skillopt.store.files import BackgroundWriter
from skillopt.store.handoff import FolderQueue
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.progress import ProgressFile
from skillopt.store.projector import Projector
from skillopt.store.results import write_places
from skillopt.store.run_history import RunHistory, useless


@dataclass(frozen=True, slots=True)
class Training:
    """A run ready to go, or to go on."""

    spec: RunSpec
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
    speculative: TaskGroup
    """Attempts under way that nobody may need."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of so far, by earlier processes too."""
        return tuple(RunHistory.of(self.run.sink.record.events()).warnings)

    def warn(self, texts: Iterable[str]) -> None:
        earlier = self.warnings
        for warning in (self.run.sink.clean(Warned(text)) for text in texts):
            if warning.text not in earlier:
                self.run.sink.note(warning)

    @property
    def meter(self) -> Meter:
        return self.budget.meter

    async def preflight_attempts(self) -> None:
        """Try the models that make and score attempts."""
        called = [model for role, model in self.models.items() if role != "optimizer"]
        await map_all(preflight, called)

    async def go(self) -> State:
        """Train to the end of the plan, from wherever the event log ends."""
        spec, run = self.spec, self.run
        history = RunHistory.of(run.sink.record.events())
        before = history.state
        unfinished = before is None or run.plan.next(before) is not None
        if unfinished:
            run.enter("preflight")
            await map_all(preflight, list(self.models.values()))
            prices = {role: price.source for role, price in spec.prices.items()}
            sources = {role: prices.get(role) for role in spec.roles}
            run.sink.note(Started(_now(), __version__, sources))
            self.warn(spec.warnings)
            self.warn([PUBLISHED] if self.secrets.published else [])
            if before is not None:
                self.warn(no_room(spec.config, run.plan, before))
        try:
            state = await train(run, spec.skill)
        except BaseException as error:
            if run.sink.begun:
                left = await rest(spec) if isinstance(error, BudgetSpent) else None
                why = f"{type(error).__name__}: {error}".strip(": ")
                run.sink.note(Stopped(why, _now(), left))
            raise
        await self.speculative.cancel()
        if exceeded := self.budget.exceeded:
            self.warn([exceeded])
        if unfinished or not history.finished:  # its note may be lost: the last line was cut
            run.sink.note(Finished(_now()))
        return state


@asynccontextmanager
async def open_training(
    spec: RunSpec, watch: Watcher, secrets: Secrets | None = None
) -> AsyncGenerator[Training, None]:
    """Lock the run directory, connect the models, and put the run together."""
    layout, config, supplied = Layout(spec.out), spec.config, spec.supplied
    with (
        RunLock(spec.out),
        ProgressFile(layout.progress) as progress,
        BackgroundWriter() as writer,
    ):
        _check_folder(spec, layout)
        watch = _all(progress, watch)
        log, queue = EventFile(layout.events), FolderQueue(layout.handoff)
        async with (
            open_resources(spec, layout, spec.skill, secrets, queue, watch) as resources,
            supplied.executor(resources.budget) if supplied.executor else nullcontext() as executor,
            TaskGroup() as group,
            TaskGroup() as speculative,
        ):
            models, secrets = resources.models(), resources.factory.secrets
            hide = secrets.hide_values
            harness = resources.harness(models["target"])
            identity = {
                key: hide(value) for key, value in identity_of(spec, harness, models).items()
            }
            before = replay(log.events())
            if before is not None:
                check_same_run(identity, before.identity, Config().identity())
            projector = Projector(
                layout,
                resources.cache,
                _recorded_settings(spec, hide),
                extra=figures,
                document=hide(_with_data(spec).dump()),
                write=writer.write,
            )
            repaired = tuple(projector.rebuild(log.events()))
            sink = EventSink(log, watch, _cleaning(hide))
            environment = with_models(spec.environment, models)
            runner = resources.runner(harness, environment, sink, executor)
            asker = Asker(models["optimizer"], spec.prompts, sink, limits(config.gradient))
            tasks = {task.id: task for task in spec.environment.tasks("train")}
            probe = LiveTargetProbe(
                runner=runner,
                target=models["target"],
                tasks=tasks,
                speculation=Prefetch(runner, speculative) if speculates(config) else None,
            )
            training = Training(
                spec,
                _run(spec, identity, probe, asker, group, resources.budget),
                resources.budget,
                layout,
                repaired,
                resources.cache.reused,
                {role: model for role, model in models.items() if role not in supplied.models},
                secrets,
                speculative,
            )
            sink.watch = _all(projector, _data_files(spec, hide), watch, _room(training))
            moves = 1 + len(spec.plan.moves)  # the baseline comes before those of the plan
            done = 0 if before is None else moves - len(spec.plan.left(before))
            progress.follow(lambda: training.meter.total, done=done, total=moves)
            yield training


async def run_training(
    spec: RunSpec,
    *,
    watch: Watcher,
    warn: Callable[[str], None] | None = None,
    opened: Callable[[Training], None] | None = None,
    secrets: Secrets | None = None,
) -> Result:
    """Begin or continue a training that was read and checked.

    Args:
        spec: What `prepare` has made.
        watch: Called with every event of the run as it happens.
        warn: Called once with each warning, those of earlier starts included.
        opened: Called when the run directory is locked and before any work.
        secrets: Variables of the environment that were read already.
    """
    warned: set[str] = set()

    def warn_once(texts: Iterable[str]) -> None:
        for text in texts:
            if warn is not None and text not in warned:
                warned.add(text)
                warn(text)

    def see(event: Event | Signal) -> None:
        watch(event)
        if isinstance(event, Warned):
            warn_once([event.text])

    warn_once(spec.warnings)
    async with open_training(spec, see, secrets) as training:
        warn_once(training.warnings)
        if opened is not None:
            opened(training)
        state = await training.go()
        problem = useless(training.run.sink.record.events())
        warnings = (*spec.warnings, *training.warnings, *([problem] if problem else []))
        return Result(
            best_skill=state.best.skill.render(),
            state=state,
            out=training.layout.root,
            spent=training.meter.total,
            problem=problem,
            warnings=tuple(dict.fromkeys(warnings)),
        )


def _check_folder(spec: RunSpec, layout: Layout) -> None:
    """Find out now, not after the baseline was paid for, that the folder cannot be used."""
    if layout.evaluation.exists() and not layout.events.exists():
        raise StoreError(
            f"{spec.out} holds the results of `skillopt eval`, and a training run would mix its "
            "files with them; choose another env.out_root"
        )
    folder = _manifest_folder(spec)
    if folder is not None:
        check_manifest_place(folder, spec.splits)


def identity_of(spec: RunSpec, harness: Harness, models: Mapping[Role, Model]) -> dict[str, str]:
    """What makes a run this run: its settings, and who takes part in its scores."""
    others = {f"{role} model": models[role].fingerprint for role in models if role != "target"}
    return {**spec.identity, "target model": harness.fingerprint, **others}


def _with_data(spec: RunSpec) -> Config:
    """The configuration with the size of the train split and the places that were found."""
    config, size = with_found_paths(spec.config), len(spec.environment.tasks("train"))
    return replace(
        config,
        train=config.train.model_copy(update={"train_size": size}),
        env=config.env.model_copy(update={"out_root": str(spec.out.resolve())}),
    )


def _recorded_settings(spec: RunSpec, hide: Callable[[str], str]) -> dict[str, object]:
    """The settings under their flat names, and what follows from them and the data."""
    steps = sum(isinstance(move, Step) and move.epoch == 1 for move in spec.plan.moves)
    config = _with_data(spec)
    values = {
        **config.flat(),
        "steps_per_epoch": steps,
        "batches_per_epoch": steps * config.train.accumulation,
        "samples_per_epoch": config.train.train_size,
        STARTED_IN: _starting_folder(spec.out.resolve()),
    }
    return {key: change_texts(cast("Json", value), hide) for key, value in values.items()}


def _starting_folder(run: Path) -> str:
    """The current directory as `config.json` names it: relative to the run if that is below it.

    A project that is copied or moved with its runs is then complete.
    """
    folder = Path.cwd()
    return os.path.relpath(folder, run) if run.is_relative_to(folder) else str(folder)


def _cleaning(hide: Callable[[str], str]) -> Clean:
    def clean(event: E, /) -> E:
        return cast("E", codec.events().without(event, hide))

    return clean


def _run(
    spec: RunSpec,
    identity: Mapping[str, str],
    probe: LiveTargetProbe,
    asker: Asker,
    group: TaskGroup,
    budget: Budget,
) -> TrainingRun:
    config, runner, caps = spec.config, probe.runner, budget.limits
    gate, slow_gate = gates(config)
    halving = halving_schedule(config)
    val, repeated = validation_tasks(config, spec.environment), replication(config)
    limited = any(cap is not None for cap in (caps.dollars, caps.tokens, caps.calls))
    reserve = Reserve(budget, len(val) * repeated.replicates) if limited else None
    parts = optimizer_parts(config, asker, probe, reserve)
    # A worker elsewhere tells what several attempts took together: that belongs to one move.
    waits = spec.supplied.executor is not None or bool(hindrance(config))
    return TrainingRun(
        runner=runner,
        plan=spec.plan,
        val=val,
        optimizer=parts.optimizer,
        reviewer=parts.reviewer,
        gate=gate,
        slow_gate=slow_gate,
        guides_best=not config.optimizer.slow_update_gate_with_selection,
        meta_reflector=parts.meta_reflector,
        pruner=pruner(config, probe),
        replication=repeated,
        identity=identity,
        defaults=Config().identity(),
        shortener=parts.shortener,
        early=None if waits else Prefetch(runner, group, certain=True),
        speculation=probe.speculation,
        halving=halving and SuccessiveHalving(runner=runner, schedule=halving, gate=gate),
        parents=parents(config),
        soft_weight=metric(config).soft_weight,
        memory=spec.supplied.memory or Memory(),
    )


def _data_files(spec: RunSpec, hide: Callable[[str], str]) -> Watcher:
    """Writes how the data was cut and where items are from, once the run has really begun."""

    def watch(event: Event | Signal) -> None:
        if not isinstance(event, Begun):
            return
        tasks = (task for split in SPLITS for task in spec.environment.tasks(split))
        write_places(Layout(spec.out), tasks, hide)
        folder = _manifest_folder(spec)
        if folder is not None:
            source, seed = str(spec.config.path("env.data_path")), spec.config.env.split_seed
            write_manifest(folder, spec.splits, source=source, ratio=spec.splits.ratio, seed=seed)

    return watch


def _room(training: Training) -> Watcher:
    """Warns as soon as the baseline is known, where it leaves the gate no room."""

    def watch(event: Event | Signal) -> None:
        if isinstance(event, Begun):
            spec = training.spec
            training.warn(no_room(spec.config, spec.plan, State.after(event)))

    return watch


def _manifest_folder(spec: RunSpec) -> Path | None:
    """Where the cut of a single file is written down; None where the cut is not ours."""
    config, ratio = spec.config, spec.splits.ratio
    ours = ratio and spec.supplied.splits is None and config.path("env.data_path") is not None
    if not ours:
        return None
    name = f"{config.env.name}_{ratio.replace(':', '-')}_seed{config.env.split_seed}"
    folder = config.path("env.split_output_dir") or spec.out / "_generated_splits"
    return folder / name.replace("/", "_").replace(":", "_")


def _all(*watchers: Watcher) -> Watcher:
    def watch(event: Event | Signal) -> None:
        for watcher in watchers:
            watcher(event)

    return watch


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
