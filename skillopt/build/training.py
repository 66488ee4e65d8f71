"""A training run put together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from skillopt import __version__
from skillopt.aio import map_all
from skillopt.build.data import (
    World,
    exam_tasks,
    initial_skill,
    open_world,
    training_tasks,
    validation_tasks,
    write_cut,
)
from skillopt.build.models import Switchboard, preflight
from skillopt.config.schema import Config, GradientSection, OptimizerSection
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.events import Begun, Event, Signal, Started, Stopped
from skillopt.core.journal import Journal
from skillopt.core.ports import Gate, Watcher
from skillopt.core.rollout import Rollout
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.core.task import Split
from skillopt.datasets.splits import Splits
from skillopt.engine.bench import Bench
from skillopt.engine.loop import train
from skillopt.engine.plan import Plan, Shape, digest
from skillopt.engine.run import Run, recognise
from skillopt.evaluation.gates import Metric, Strict, always
from skillopt.evaluation.report import figures
from skillopt.gradient.aggregate import Aggregate
from skillopt.gradient.instruct import Instruct
from skillopt.gradient.patterns import Patterns
from skillopt.gradient.reflect import Reflect
from skillopt.gradient.several import Several, Union
from skillopt.harness.chat import Chat
from skillopt.model.http import Http
from skillopt.model.wrap import Meter
from skillopt.optimizer.meta_skill import MetaSkill
from skillopt.optimizer.pipeline import Aggregating, Pipeline, Reflecting, Selecting
from skillopt.optimizer.review import LookBack
from skillopt.optimizer.schedule import Constant, Cosine, Linear
from skillopt.optimizer.select import Select
from skillopt.optimizer.slow_update import SlowUpdate
from skillopt.optimizer.trial import Trial
from skillopt.optimizer.update import Update
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library
from skillopt.store.cache import Cache
from skillopt.store.events import EventLog
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.projector import Projector


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """What the Python API brings along instead of naming it in the configuration."""

    splits: Splits | None = None
    target: Model | None = None
    optimizer: Model | None = None
    skill: Skill | None = None


@dataclass(frozen=True, slots=True)
class Brief:
    """What is known before anything is spent: everything here was read and checked."""

    config: Config
    world: World
    skill: Skill
    plan: Plan
    prompts: Library
    supplied: Supplied
    identity: Mapping[str, str]
    out: Path


@dataclass(frozen=True, slots=True)
class Training:
    """A run ready to go, or to go on."""

    brief: Brief
    run: Run
    meter: Meter
    layout: Layout
    repaired: tuple[Path, ...]
    """Files of the run directory that were missing or damaged and were written anew."""
    models: tuple[Model, ...]
    """Those to be tried before work is paid for."""

    async def go(self) -> State:
        """Train to the end of the plan, from wherever the record ends."""
        before = replay(self.run.journal.record.events())
        if before is None or self.run.plan.next(before) is not None:
            self.run.enter("preflight")
            await map_all(preflight, self.models)
            self.run.journal.note(Started(_now(), __version__))
        try:
            state = await train(self.run, self.brief.skill)
        except BaseException as error:
            if self.run.journal.begun:
                self.run.journal.note(
                    Stopped(f"{type(error).__name__}: {error}".strip(": "), _now())
                )
            raise
        return state


def prepare(config: Config, supplied: Supplied | None = None) -> Brief:
    """Read and check everything that a run needs; touches no disk and no network."""
    given = supplied or Supplied()
    needs: list[Split] = ["train", "val"]
    if config.evaluation.eval_test:
        needs.append("test")
    world = open_world(config, needs, given.splits)
    skill = given.skill or initial_skill(config, world.kind)
    train_tasks = training_tasks(config, world.environment)
    val = validation_tasks(config, world.environment)
    schedule = _schedule(config.optimizer)
    test = exam_tasks(config, world.environment)
    plan = Plan.build(train_tasks, _shape(config), schedule, test)
    folders = [each for each in (config.path("env.prompts"), world.kind.prompts) if each]
    prompts = Library.of(folders)
    identity = {
        **config.identity(),
        **{
            f"model.{role} (callable)": model.fingerprint
            for role, model in (("target", given.target), ("optimizer", given.optimizer))
            if model is not None
        },
        "environment": world.environment.fingerprint,
        "initial skill": skill.digest,
        "train tasks": digest(train_tasks),
        "val tasks": digest(val),
        "prompts": _short(prompts.fingerprint),
    }
    return Brief(config, world, skill, plan, prompts, given, identity, _out(config, identity))


@asynccontextmanager
async def open_training(
    brief: Brief, watch: Watcher, secrets: Secrets | None = None
) -> AsyncGenerator[Training, None]:
    """Lock the run directory, connect the models, and put the run together."""
    layout = Layout(brief.out)
    with RunLock(brief.out):
        record = EventLog(layout.events)
        before = replay(record.events())
        if before is not None:
            recognise(brief.identity, before.identity)
        cache = Cache(layout.cache)
        try:
            async with Http() as http:
                meter = Meter.after(cache.spent())
                board = Switchboard(secrets or Secrets.load(), http, cache, meter)
                config = brief.config
                projector = Projector(layout, cache, config.flat(), extra=figures)
                repaired = tuple(projector.rebuild(record.events()))
                journal = Journal(record, _all(projector, _cut(brief), watch))
                target = _target(brief, board)
                optimizer = _optimizer(brief, board)
                bench = Bench(
                    environment=brief.world.environment,
                    harness=Chat(target),
                    work=cache,
                    journal=journal,
                    workers=config.env.workers,
                    max_failed=config.evaluation.max_failure_share,
                )
                run = _run(brief, bench, Asker(optimizer, brief.prompts, journal))
                called = [
                    model
                    for model, own in (
                        (target, brief.supplied.target),
                        (optimizer, brief.supplied.optimizer),
                    )
                    if own is None
                ]
                yield Training(brief, run, meter, layout, repaired, tuple(called))
        finally:
            cache.close()


def _run(brief: Brief, bench: Bench, asker: Asker) -> Run:
    config, optimizer = brief.config, brief.config.optimizer
    gradient = config.gradient
    metric = _metric(config)
    gate: Gate = Strict(metric) if config.evaluation.use_gate else always(metric)
    gated = optimizer.slow_update_gate_with_selection
    return Run(
        bench=bench,
        plan=brief.plan,
        val=validation_tasks(config, brief.world.environment),
        optimizer=Pipeline(
            reflect=_proposer(gradient, asker),
            aggregate=_aggregate(gradient, asker),
            select=_select(brief, bench, asker),
            update=Update(journal=bench.journal),
        ),
        reviewer=LookBack(
            slow_update=SlowUpdate(asker=asker) if optimizer.use_slow_update else None,
            meta_skill=MetaSkill(asker=asker) if optimizer.use_meta_skill else None,
        ),
        gate=gate,
        slow_gate=Strict(metric) if gated else always(metric),
        identity=brief.identity,
    )


def _proposer(gradient: GradientSection, asker: Asker) -> Reflecting:
    def one(name: str) -> Reflecting:
        match name:
            case "instruct":
                return Instruct(asker=asker, samples=gradient.samples)
            case "patterns":
                return Patterns(journal=asker.journal)
            case _:
                return Reflect(
                    asker=asker,
                    minibatch=gradient.minibatch_size,
                    failure_only=gradient.failure_only,
                )

    chosen = [one(name) for name in gradient.proposer]
    return chosen[0] if len(chosen) == 1 else Several(tuple(chosen))


def _aggregate(gradient: GradientSection, asker: Asker) -> Aggregating:
    if gradient.merge_mode == "union":
        return Union()
    return Aggregate(asker=asker, merge_batch=gradient.merge_batch_size)


def _select(brief: Brief, bench: Bench, asker: Asker) -> Selecting:
    if brief.config.optimizer.select_mode == "ranking":
        return Select(asker=asker)
    known = {task.id: task for task in brief.world.environment.tasks("train")}

    async def attempt(skill: Skill, tasks: Sequence[str]) -> list[Rollout]:
        return await bench.try_out(skill, [known[each] for each in tasks])

    trial_tasks = brief.config.optimizer.trial_tasks
    return Trial(attempt=attempt, journal=bench.journal, tasks=trial_tasks)


def _target(brief: Brief, board: Switchboard) -> Model:
    own = brief.supplied.target
    role = brief.config.model.role("target")
    return board.connect(role) if own is None else board.wrap(own, "target")


def _optimizer(brief: Brief, board: Switchboard) -> Model:
    own = brief.supplied.optimizer
    if own is not None:
        return board.wrap(own, "optimizer")
    workers = brief.config.gradient.analyst_workers
    return board.connect(brief.config.model.role("optimizer"), concurrency=workers)


def _shape(config: Config) -> Shape:
    optimizer = config.optimizer
    looks_back = optimizer.use_slow_update or optimizer.use_meta_skill
    return Shape(
        epochs=config.train.num_epochs,
        batch=config.train.batch_size,
        accumulation=config.train.accumulation,
        sample=optimizer.slow_update_samples if looks_back else 0,
        last_sample=optimizer.slow_update_samples if optimizer.use_slow_update else 0,
        seed=config.train.seed,
    )


def _schedule(optimizer: OptimizerSection) -> Callable[[int, int], int]:
    high, low = optimizer.learning_rate, min(optimizer.min_learning_rate, optimizer.learning_rate)
    match optimizer.lr_scheduler:
        case "constant":
            return Constant(high)
        case "linear":
            return Linear(high, low)
        case "cosine":
            return Cosine(high, low)


def _metric(config: Config) -> Metric:
    match config.evaluation.gate_metric:
        case "hard":
            return Metric(0.0)
        case "soft":
            return Metric(1.0)
        case "mixed":
            return Metric(config.evaluation.gate_mixed_weight)


def _out(config: Config, identity: Mapping[str, str]) -> Path:
    """Where the run is kept: as configured, or named so that the same command finds it again."""
    if config.env.out_root:
        return Path(config.env.out_root).expanduser()
    listed = "\n".join(f"{key}={value}" for key, value in sorted(identity.items()))
    optimizer = config.model.role("optimizer").model
    name = re.sub(r"[^\w.-]+", "-", f"skillopt_{config.env.name}_{optimizer}_{_short(listed)}")
    return Path("outputs") / name


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _cut(brief: Brief) -> Watcher:
    """Writes the split manifest once the run has really begun."""

    def watch(event: Event | Signal) -> None:
        if isinstance(event, Begun) and brief.supplied.splits is None:
            write_cut(brief.config, brief.out, brief.world.splits)

    return watch


def _all(*watchers: Watcher) -> Watcher:
    def watch(event: Event | Signal) -> None:
        for each in watchers:
            each(event)

    return watch


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
