"""`skillopt eval`: one skill measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.text import Text

from skillopt.api import evaluate_async
from skillopt.build.evaluating import Verdict
from skillopt.cli.arguments import Given
from skillopt.cli.phrases import paid
from skillopt.cli.progress import reporting
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.cli.tables import Table
from skillopt.core.rollout import Evaluation
from skillopt.evaluation.report import mean, shown_metrics

_FAREWELL = "interrupted. Finished attempts are saved; run the same command to resume."
_SHOWN = 3


def evaluate(session: Session, given: Given, skill: Path, split: str) -> None:
    """Measure, then tell the score and how sure it is."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    config = configured(given, screen)

    async def measure() -> Verdict:
        with reporting(screen) as watch:
            return await evaluate_async(
                skill, config, split=split, watch=watch, progress=False, secrets=secrets
            )

    verdict = run(measure(), screen, lambda: _FAREWELL)
    for warning in verdict.warnings:
        screen.warn(warning)
    screen.show(_scores(verdict))
    for line in _failures(verdict.whole):
        screen.show(Text(line, style="yellow"))
    screen.show(
        "",
        f"skill  {skill}",
        f"cost   {paid(verdict.spent)}",
        f"files  {verdict.out}",
    )


def _scores(verdict: Verdict) -> Table:
    rows: dict[str, Evaluation] = {**verdict.evaluations}
    rounds = len(verdict.whole.rounds)
    every = [f"passed {rounds} of {rounds}"] if rounds else []
    chief, *others = shown_metrics(verdict.metric)
    numbers = (chief.name, *(each.name for each in others), *every, "n", "failures")
    made = Table("split", chief.name, "95 % interval", *numbers[1:], right=numbers)
    if len(rows) > 1:
        rows["all"] = verdict.whole
    for name, each in rows.items():
        found = mean(each, chief)
        made.add_row(
            name,
            f"{found.mean:.3f}",
            f"[{found.low:.3f}, {found.high:.3f}]",
            *(f"{other(each):.3f}" for other in others),
            *(f"{each.passed:.3f}" for _ in every),
            str(each.n),
            str(len(each.failures)),
        )
    return made


def _failures(evaluation: Evaluation) -> list[str]:
    """The most frequent reasons for which attempts have no score."""
    reasons = Counter(f"{each.kind}: {each.message}" for each in evaluation.failures.values())
    return [f"failed {times}x  {reason}" for reason, times in reasons.most_common(_SHOWN)]
