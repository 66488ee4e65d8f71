"""`skillopt eval`: evaluates one skill."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from skillopt.api import evaluate_async, is_simulated, load_evaluation
from skillopt.app.evaluation import EvalResult
from skillopt.cli.arguments import CommandLine
from skillopt.cli.formatting import paid
from skillopt.cli.progress import reporting
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.cli.tables import Table
from skillopt.store.layout import RolloutFolder
from skillopt.store.results import EvaluationReport, SplitScore

_FAREWELL = "interrupted. Finished attempts are saved; run the same command to resume."
_SHOWN = 10
"""Failed items that are listed."""
_WIDE = 120
"""Characters of a reason that are shown."""


def evaluate(session: Session, given: CommandLine, skill: Path, split: str) -> None:
    """Measure, then tell the score and how sure it is."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    config = configured(given, screen)

    async def measure() -> EvalResult:
        with reporting(screen) as watch:
            return await evaluate_async(
                skill, config, split=split, watch=watch, progress=False, secrets=secrets
            )

    verdict = run(measure(), screen, lambda: _FAREWELL)
    for warning in verdict.warnings:
        screen.warn(warning)
    show_evaluation(load_evaluation(verdict.out), screen)


def show_evaluation(found: EvaluationReport, screen: Screen) -> None:
    """Scores, the items that failed, and what it was done with."""
    screen.show(_scores(found))
    if found.failed:
        screen.show("", _failed(found))
        if more := len(found.failed) - _SHOWN:
            results = RolloutFolder(found.out).results
            screen.show(*([f"and {more} more: {results}"] if more > 0 else []))
    simulated = " (simulated)" if is_simulated(found.target) else ""
    screen.show("", f"skill  {found.skill}")
    if found.target:
        screen.show(f"model  {found.target}{simulated}")
    if found.benchmark:
        screen.show(f"data   {found.benchmark}{f', {found.data}' if found.data else ''}")
    screen.show(f"cost   {paid(found.spent)}", f"files  {found.out}")


def _scores(found: EvaluationReport) -> Table:
    rounds = found.whole.replicates
    every = [f"passed {rounds} of {rounds}"] if rounds > 1 else []
    others = [each for each in ("hard", "soft") if each != found.metric]
    numbers = (found.metric, *others, *every, "n", "failures")
    made = Table("split", found.metric, "95 % interval", *numbers[1:], right=numbers)
    for each in (*found.splits, *([found.whole] if len(found.splits) > 1 else [])):
        made.add_row(
            each.split,
            f"{each.score:.3f}",
            f"[{each.low:.3f}, {each.high:.3f}]",
            *(f"{_by(each, name):.3f}" for name in others),
            *("" if each.passed is None else f"{each.passed:.3f}" for _ in every),
            str(each.n),
            str(each.failures),
        )
    return made


def _by(score: SplitScore, metric: str) -> float:
    return score.hard if metric == "hard" else score.soft


def _failed(found: EvaluationReport) -> Table:
    """The first items without full marks, those without a score before the others."""
    made = Table("failed item", "hard", "reason", right=["hard"], wrap=["reason"])
    for each in found.failed[:_SHOWN]:
        reason = " ".join(each.reason.split())
        made.add_row(
            each.id,
            Text("no score", style="yellow") if each.hard is None else f"{each.hard:.3f}",
            f"{reason[:_WIDE]} ..." if len(reason) > _WIDE else reason or "not said",
        )
    return made
