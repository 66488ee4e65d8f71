"""A training run put together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from skillopt import __version__
from skillopt.aio import Nursery, map_all, nursery
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
from skillopt.build.places import out_root, short
from skillopt.build.policies import (
    check,
    gates,
    limits,
    meta_reflector,
    pipeline,
    pruner,
    reviewer,
    sampling,
    schedule,
    shape,
    shortener,
)
from skillopt.build.pricing import caps_of, prices_of
from skillopt.build.speculating import speculates
from skillopt.config.schema import Config, Role
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.events import Begun, Event, Signal, Started, Stopped
from skillopt.core.journal import Journal
from skillopt.core.ports import Watcher
from skillopt.core.skill import Skill
from skillopt.core.state import State, replay
from skillopt.core.task import Split
from skillopt.datasets.splits import Splits
from skillopt.engine.bench import Bench
from skillopt.engine.loop import train
from skillopt.engine.plan import Plan, digest
from skillopt.engine.run import Run, recognise
from skillopt.engine.speculation import Speculation
from skillopt.engine.witness import Witness
from skillopt.evaluation.report import figures
from skillopt.harness.chat import Chat
from skillopt.model.http import Http
from skillopt.model.meter import Meter
from skillopt.model.prices import Tariff
from skillopt.model.purse import Caps, Purse
from skillopt.prompts.ask import Asker
from skillopt.prompts.library import Library
from skillopt.store.cache import Cache, Reused
from skillopt.store.desk import QuestionDesk
from skillopt.store.events import EventLog
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.projector import Projector

ROLES: tuple[Role, ...] = ("target", "optimizer")
"""Those that a training asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """What the Python API brings along instead of naming it in the configuration."""

    splits: Splits | None = None
    target: Model | None = None
    optimizer: Model | None = None
    skill: Skill | None = None

    @property
    def own(self) -> list[Role]:
        """The roles that have a model of the caller's."""
        models: dict[Role, Model | None] = {"target": self.target, "optimizer": self.optimizer}
        return [role for role, model in models.items() if model is not None]


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
    prices: Mapping[Role, Tariff]
    """Those that are known."""
    caps: Caps


@dataclass(frozen=True, slots=True)
class Training:
    """A run ready to go, or to go on."""

    brief: Brief
    run: Run
    meter: Meter
    layout: Layout
    repaired: tuple[Path, ...]
    """Files of the run directory that were missing or damaged and were written anew."""
    reused: Reused
    """What this process found finished."""
    models: tuple[Model, ...]
    """Those to be tried before work is paid for."""

    async def go(self) -> State:
        """Train to the end of the plan, from wherever the record ends."""
        before = replay(self.run.journal.record.events())
        if before is None or self.run.plan.next(before) is not None:
            self.run.enter("preflight")
            await map_all(preflight, self.models)
            self.run.journal.note(Started(_now(), __version__, _sources(self.brief)))
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
    check(config)
    given = supplied or Supplied()
    needs: list[Split] = ["train", "val"]
    if config.evaluation.eval_test:
        needs.append("test")
    world = open_world(config, needs, given.splits)
    skill = given.skill or initial_skill(config, world.kind)
    train_tasks = training_tasks(config, world.environment)
    val = validation_tasks(config, world.environment)
    test = exam_tasks(config, world.environment)
    plan = Plan.build(train_tasks, shape(config), schedule(config.optimizer), test)
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
        "prompts": short(prompts.fingerprint),
    }
    out = out_root(config, "skillopt", config.model.role("optimizer").model, identity)
    prices = prices_of(config, ROLES, given.own)
    caps = caps_of(config, ROLES, prices)
    return Brief(config, world, skill, plan, prompts, given, identity, out, prices, caps)


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
            recognise(brief.identity, before.identity, Config().identity())
        cache = Cache(layout.cache)
        try:
            async with Http() as http, nursery() as group:
                meter = Meter.after(cache.spent())
                board = Switchboard(
                    secrets or Secrets.load(),
                    http,
                    cache,
                    Purse(meter, brief.caps),
                    QuestionDesk(layout.handoff),
                )
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
                asker = Asker(optimizer, brief.prompts, journal, limits(config.gradient))
                tasks = {task.id: task for task in brief.world.environment.tasks("train")}
                witness = Witness(bench=bench, target=target, tasks=tasks)
                run = _run(brief, witness, asker, group)
                called = [
                    model
                    for model, own in (
                        (target, brief.supplied.target),
                        (optimizer, brief.supplied.optimizer),
                    )
                    if own is None
                ]
                yield Training(brief, run, meter, layout, repaired, cache.reused, tuple(called))
        finally:
            cache.close()


def _run(brief: Brief, witness: Witness, asker: Asker, group: Nursery) -> Run:
    config, environment = brief.config, brief.world.environment
    gate, slow_gate = gates(config)
    return Run(
        bench=witness.bench,
        plan=brief.plan,
        val=validation_tasks(config, environment),
        optimizer=pipeline(config, witness, asker),
        reviewer=reviewer(config.optimizer, asker),
        gate=gate,
        slow_gate=slow_gate,
        meta_reflector=meta_reflector(config.optimizer, asker),
        pruner=pruner(config, witness),
        sampling=sampling(config),
        identity=brief.identity,
        defaults=Config().identity(),
        shortener=shortener(config, asker),
        speculation=Speculation(witness.bench, group) if speculates(config) else None,
    )


def _sources(brief: Brief) -> dict[str, str | None]:
    """Who says what each role costs; None: nobody."""
    return {role: brief.prices[role].source if role in brief.prices else None for role in ROLES}


def _target(brief: Brief, board: Switchboard) -> Model:
    own = brief.supplied.target
    role = brief.config.model.role("target")
    return board.connect(role) if own is None else board.adopt(own, role)


def _optimizer(brief: Brief, board: Switchboard) -> Model:
    own = brief.supplied.optimizer
    role = brief.config.model.role("optimizer")
    if own is not None:
        return board.adopt(own, role)
    return board.connect(role, concurrency=brief.config.gradient.analyst_workers)


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
