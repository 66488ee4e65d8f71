"""`skillopt train`: starts or resumes a run."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from skillopt import __version__
from skillopt.api import Inputs, Result, run_training
from skillopt.app.calibrating import noise, terms
from skillopt.app.costs import Range
from skillopt.app.environment import describe_cut, validation_tasks
from skillopt.app.integrity import scan_skill
from skillopt.app.rest import raised, rest
from skillopt.app.run_spec import RunSpec
from skillopt.app.training import Training
from skillopt.cli.arguments import CommandLine
from skillopt.cli.calibrate import report
from skillopt.cli.estimate import estimated, one_line, spans
from skillopt.cli.formatting import count, quoted, some, spelt
from skillopt.cli.progress import reporting
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
    tally,
    verdict,
)
from skillopt.cli.run_progress import RunProgress
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.core.events import Begun, Event, Signal
from skillopt.core.ports import TellsGold
from skillopt.core.state import State, replay
from skillopt.engine.plan import Step
from skillopt.errors import BudgetSpent, RolloutError, Unusable
from skillopt.store.cache import ReuseCount
from skillopt.store.layout import Layout
from skillopt.store.reader import RunReader


def train(session: Session, given: CommandLine) -> None:
    """Train, then tell what came out."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    spec, result = conduct(configured(given, screen), screen, secrets, given)
    summarise(result.out, screen)
    _distrust(spec, result, screen)
    screen.show("", next_commands(result.out))
    insist(result)


def insist(result: Result) -> None:
    """Refuse to call a run a success whose optimizer never gave a usable reply."""
    if result.problem:
        raise Unusable(result.problem)


def conduct(
    config: Config, screen: Screen, secrets: Secrets, again: CommandLine
) -> tuple[RunSpec, Result]:
    """Run a training to its end, with progress; `again` is how it is continued."""
    spec = Inputs(config=config).prepare(secrets)
    _introduce(spec, screen)
    layout = Layout(spec.out)
    try:
        result = run(_train(spec, screen, secrets), screen, lambda: _farewell(layout))
    except BudgetSpent as error:
        if layout.best_skill.exists():
            summarise(spec.out, screen, label=" so far")
        raise BudgetSpent(f"{error}{_onwards(spec, again)}") from error
    return spec, result


def _onwards(spec: RunSpec, again: CommandLine) -> str:
    """What the rest would take, and the command for it; empty where nobody can tell."""
    left = asyncio.run(rest(spec))
    if left is None:
        return ""
    dollars = None if left.dollars is None else Range(*left.dollars)
    size = spans(Range(*left.calls), Range(*left.tokens), dollars)
    return (
        f"\nEstimate for the rest of the run: {size}.\n"
        f"To resume with a higher limit: {again.command('train', raised(spec, left))}"
    )


def summarise(out: Path, screen: Screen, *, label: str = "") -> None:
    """Scores, steps, cost and the path of the best skill."""
    with RunReader(out) as reader:
        screen.show(
            Text(f"\nresult{label}", style="bold"),
            scores(reader.state),
            verdict(reader.state),
            *few_val(reader.state),
            "",
            tally(reader.steps),
            *forced(reader.entries),
            proposers(reader.facts),
            rejections(reader.facts),
            lost(reader.facts),
            "",
            cost(reader),
            "",
            best_at(reader.state, reader.layout.best_skill),
        )


def _distrust(spec: RunSpec, result: Result, screen: Screen) -> None:
    """Warn if the best skill recites items, where right answers are there to compare with."""
    environment = spec.environment
    best, initial = result.state.best.skill, result.state.initial.skill
    if best == initial or not isinstance(environment, TellsGold):
        return
    scan = scan_skill(environment, best, initial)
    for each in run(scan, screen, lambda: _farewell(Layout(result.out))):
        if each.verdict in {"look", "bad"}:
            told = f"{each.check}: {each.found}; see skillopt check {quoted(result.out)}"
            screen.warn(told)


async def _train(spec: RunSpec, screen: Screen, secrets: Secrets) -> Result:
    found: list[ReuseCount] = []
    with reporting(screen) as watch:

        def see(event: Event | Signal) -> None:
            watch(event)
            if isinstance(event, Begun) and spec.config.evaluation.calibrate:
                _calibration(spec, event, screen)

        def opened(training: Training) -> None:
            found.append(training.reused)
            before = replay(training.run.sink.record.events())
            val = len(validation_tasks(spec.config, spec.environment))
            watch.follow(RunProgress(spec.plan, val, training.meter, before))
            _recall(training, before, screen)

        try:
            result = await run_training(
                spec, watch=see, warn=screen.warn, opened=opened, secrets=secrets
            )
            if spec.plan.out_of_patience(result.state):
                tried = count(result.state.memory.fruitless, "step")
                screen.tell(f"stopped early: {tried} in a row changed nothing (train.patience)")
            return result
        finally:
            for each in found:
                if told := reused(each):
                    screen.tell(told)


def _calibration(spec: RunSpec, begun: Begun, screen: Screen) -> None:
    found = noise(spec, begun.initial.evaluation)
    if found is not None:
        screen.show(*report(found, terms(spec)), "")


def _introduce(spec: RunSpec, screen: Screen) -> None:
    config, moves = spec.config, spec.plan.moves
    sizes = Counter({name: len(getattr(spec.splits, name)) for name in ("train", "val")})
    steps = sum(isinstance(move, Step) for move in moves)
    tested = f", {len(spec.splits.test)} test" if config.evaluation.eval_test else ""
    target, optimizer = config.model.role("target"), config.model.role("optimizer")
    screen.tell(
        f"skillopt {__version__}: {config.env.name}, {sizes['train']} train, {sizes['val']} val"
        f"{tested} items; {count(steps, 'step')} in {count(config.train.num_epochs, 'epoch')}"
    )
    if cut := describe_cut(spec.splits):
        screen.tell(cut)
    screen.tell(f"target {target.model}, optimizer {optimizer.model}")
    if files := spec.skill.references:
        screen.tell(f"skill SKILL.md with {count(len(files), 'reference')}")
    screen.tell(f"run directory {spec.out}")
    if config.optimizer.use_slow_update:
        screen.tell(f"[slow update] acceptance={_acceptance(config)}")
    with suppress(RolloutError):  # a task that cannot be opened is the run's own matter
        screen.tell(f"estimate for the whole run: {one_line(estimated(spec))}")


def _acceptance(config: Config) -> str:
    if config.optimizer.slow_update_gate_with_selection:
        return "gate (guidance is kept only if it is better on val)"
    return "force (guidance is always kept; its effect on val is reported)"


def _recall(training: Training, before: State | None, screen: Screen) -> None:
    """What an earlier process left."""
    if files := training.repaired:
        screen.warn(
            f"missing or damaged files in the run directory were rewritten from the event log "
            f"({len(files)}): {some([str(each) for each in files])}"
        )
    paid = training.meter.total.calls
    if before is None:
        if paid:
            screen.tell(f"resuming: {count(paid, 'call')} already paid")
        return
    plan = training.spec.plan
    move = plan.next(before)
    if move is None:
        screen.tell("this run is already finished; nothing is called or paid again")
        return
    steps = sum(isinstance(each, Step) for each in plan.moves)
    place = f"step {move.number} of {steps}" if isinstance(move, Step) else spelt(move.id)
    screen.tell(f"resuming at {place}; {count(paid, 'call')} already paid")


def _farewell(layout: Layout) -> str:
    kept = "interrupted. Finished work is saved; run the same command to resume."
    best = layout.best_skill
    return f"{kept} Best skill so far: {best}" if best.exists() else kept
