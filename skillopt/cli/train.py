"""`skillopt train`: starts or resumes a run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from skillopt import __version__
from skillopt.api import Noise, Result, estimate, open_run, prepare, run_training
from skillopt.app.calibrating import noise, terms
from skillopt.app.environment import describe_cut, validation_tasks
from skillopt.app.integrity import scan_skill
from skillopt.app.rest import raised, rest
from skillopt.app.run_spec import RunSpec
from skillopt.app.step_views import tally_of
from skillopt.app.training import Training
from skillopt.cli.arguments import CommandLine, Session
from skillopt.cli.calibrate import report
from skillopt.cli.estimate import one_line, spans
from skillopt.cli.formatting import count, quoted, some, spelt
from skillopt.cli.progress import Reporter, RunProgress
from skillopt.cli.render import Screen
from skillopt.cli.report import (
    best_at,
    cost,
    few_val,
    forced,
    lost,
    next_commands,
    proposers,
    rejections,
    reused,
    scores,
    verdict,
)
from skillopt.cli.running import Command
from skillopt.config.recipe import told_recipe
from skillopt.config.schema import Config
from skillopt.core.costs import Range
from skillopt.core.events import Begun, Event, Signal
from skillopt.core.ports import TellsGold
from skillopt.core.state import State, replay
from skillopt.engine.plan import Step
from skillopt.errors import BudgetSpent, RolloutError, Unusable
from skillopt.store.cache import ReuseCount
from skillopt.store.layout import Layout


def train(session: Session) -> None:
    command = Command(session)
    command.unlock()
    spec, result = conduct(command, command.config(), session.given)
    summarise(result.out, command.screen)
    _distrust(command, spec, result)
    command.screen.show("", next_commands(result.out))
    insist(result)


def insist(result: Result) -> None:
    """Refuse to call a run a success whose optimizer never gave a usable reply."""
    if result.problem:
        raise Unusable(result.problem)


def conduct(command: Command, config: Config, again: CommandLine) -> tuple[RunSpec, Result]:
    """Run a training to its end, with progress; `again` is how it is continued."""
    spec = prepare(config, secrets=command.secrets)
    _introduce(spec, command.screen)
    layout = Layout(spec.out)
    try:
        result = command.watch(
            lambda watch: _train(command, spec, watch), lambda: _farewell(layout)
        )
    except BudgetSpent as error:
        if layout.best_skill.exists():
            summarise(spec.out, command.screen, label=" so far")
        raise BudgetSpent(f"{error}{_onwards(spec, again)}") from error
    return spec, result


def _onwards(spec: RunSpec, again: CommandLine) -> str:
    """What the rest would take, and the command for it; empty where nobody can tell."""
    left = asyncio.run(rest(spec))
    if left is None:
        return ""
    dollars = None if left.dollars is None else Range(*left.dollars)
    size = spans(Range(*left.calls), Range(*left.tokens), dollars)
    higher = raised(spec, left)
    return (
        f"\nEstimate for the rest of the run: {size}.\n"
        f"To resume{' with a higher limit' if higher else ''}: {again.command('train', higher)}"
    )


def summarise(out: Path, screen: Screen, *, label: str = "") -> None:
    """Scores, steps, cost and the path of the best skill."""
    with open_run(out) as reader:
        screen.show(
            Text(f"\nresult{label}", style="bold"),
            scores(reader.state),
            verdict(reader.state),
            *few_val(reader.state),
            "",
            tally_of(reader.facts).words,
            *forced(reader.entries),
            proposers(reader.facts),
            rejections(reader.facts),
            lost(reader.facts),
            "",
            cost(reader),
            "",
            best_at(reader.state, reader.layout.best_skill),
        )


def _distrust(command: Command, spec: RunSpec, result: Result) -> None:
    """Warn if the best skill recites items, where right answers are there to compare with."""
    environment = spec.environment
    best, initial = result.state.best.skill, result.state.initial.skill
    if best == initial or not isinstance(environment, TellsGold):
        return
    scan = scan_skill(environment, best, initial)
    for finding in command.run(scan, lambda: _farewell(Layout(result.out))):
        if finding.verdict in {"look", "bad"}:
            command.screen.warn(
                f"{finding.check}: {finding.found}; see skillopt check {quoted(result.out)}"
            )


async def _train(command: Command, spec: RunSpec, watch: Reporter) -> Result:
    screen = command.screen
    reuse: list[ReuseCount] = []

    def see(event: Event | Signal) -> None:
        watch(event)
        if isinstance(event, Begun) and spec.config.evaluation.calibrate:
            measured = noise(spec, event.initial.evaluation)
            if measured is not None:
                screen.show(*report(Noise(measured, terms(spec))), "")

    def opened(training: Training) -> None:
        reuse.append(training.reused)
        before = replay(training.run.sink.record.events())
        val = len(validation_tasks(spec.config, spec.environment))
        watch.run = RunProgress(spec.plan, val, training.meter, before)
        _recall(training, before, screen)

    try:
        result = await run_training(
            spec, watch=see, warn=screen.warn, opened=opened, secrets=command.secrets
        )
        if spec.plan.out_of_patience(result.state):
            tried = count(result.state.memory.fruitless, "step")
            more = result.state.memory.fruitless + spec.plan.patience
            screen.tell(
                f"stopped early: {tried} in a row changed nothing (train.patience); to train on, "
                f"add train.patience={more}, and train.num_epochs=N for more epochs"
            )
        return result
    finally:
        for hits in map(reused, reuse):
            if hits:
                screen.tell(hits)


def _introduce(spec: RunSpec, screen: Screen) -> None:
    config, splits = spec.config, spec.splits
    tested = f", {len(splits.test)} test" if config.evaluation.eval_test else ""
    screen.tell(
        f"skillopt {__version__}: {config.env.name}, {len(splits.train)} train, "
        f"{len(splits.val)} val{tested} items; "
        f"{count(_steps(spec), 'step')} in {count(config.train.num_epochs, 'epoch')}"
    )
    if cut := describe_cut(splits):
        screen.tell(cut)
    target, optimizer = config.model.role("target"), config.model.role("optimizer")
    screen.tell(f"target {target.model}, optimizer {optimizer.model}")
    screen.tell(told_recipe(spec.config))
    if files := spec.skill.references:
        screen.tell(f"skill SKILL.md with {count(len(files), 'reference')}")
    screen.tell(f"run directory {spec.out}")
    if config.optimizer.use_slow_update:
        gated = config.optimizer.slow_update_gate_with_selection
        screen.tell(f"[slow update] acceptance={_GATED if gated else _FORCED}")
    with suppress(RolloutError):  # a task that cannot be opened is the run's own matter
        screen.tell(f"estimate for the whole run: {one_line(estimate(spec))}")


_GATED = "gate (guidance is kept only if it is better on val)"
_FORCED = "force (guidance is always kept; its effect on val is reported)"


def _steps(spec: RunSpec) -> int:
    return sum(isinstance(move, Step) for move in spec.plan.moves)


def _recall(training: Training, before: State | None, screen: Screen) -> None:
    """What an earlier process left."""
    if files := training.repaired:
        screen.warn(
            f"missing or damaged files in the run directory were rewritten from the event log "
            f"({len(files)}): {some([str(path) for path in files])}"
        )
    paid = training.meter.total.calls
    if before is None:
        if paid:
            screen.tell(f"resuming: {count(paid, 'call')} already paid")
        return
    spec = training.spec
    move = spec.plan.next(before)
    if move is None:
        screen.tell("this run is already finished; nothing is called or paid again")
        return
    place = f"step {move.number} of {_steps(spec)}" if isinstance(move, Step) else spelt(move.id)
    screen.tell(f"resuming at {place}; {count(paid, 'call')} already paid")


def _farewell(layout: Layout) -> str:
    kept = "interrupted. Finished work is saved; run the same command to resume."
    best = layout.best_skill
    return f"{kept} Best skill so far: {best}" if best.exists() else kept
