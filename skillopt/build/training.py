"""A training run put together."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from skillopt import __version__
from skillopt.aio import Nursery, map_all, nursery
from skillopt.build.brief import ROLES, Brief
from skillopt.build.data import (
    validation_tasks,
    write_cut,
)
from skillopt.build.models import Switchboard, preflight
from skillopt.build.policies import (
    course,
    gates,
    limits,
    meta_reflector,
    parents,
    pipeline,
    pruner,
    reviewer,
    sampling,
    shortener,
)
from skillopt.build.rest import rest
from skillopt.build.speculating import speculates
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.chat import Model
from skillopt.core.events import Begun, Event, Signal, Started, Stopped
from skillopt.core.journal import Journal
from skillopt.core.ports import Watcher
from skillopt.core.state import State, replay
from skillopt.engine.bench import Bench
from skillopt.engine.loop import train
from skillopt.engine.run import Run, recognise
from skillopt.engine.speculation import Speculation
from skillopt.engine.witness import Witness
from skillopt.errors import BudgetSpent
from skillopt.evaluation.report import figures
from skillopt.harness.chat import Chat
from skillopt.model.http import Http
from skillopt.model.meter import Meter
from skillopt.model.purse import Purse
from skillopt.prompts.ask import Asker
from skillopt.store.cache import Cache, Reused
from skillopt.store.desk import QuestionDesk
from skillopt.store.events import EventLog
from skillopt.store.layout import Layout
from skillopt.store.lock import RunLock
from skillopt.store.projector import Projector


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
                left = await rest(self.brief) if isinstance(error, BudgetSpent) else None
                why = f"{type(error).__name__}: {error}".strip(": ")
                self.run.journal.note(Stopped(why, _now(), left))
            raise
        return state


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
        course=course(config),
        parents=parents(config),
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
