"""`skillopt calibrate`: the noise of scores, and settings that suit it."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from skillopt.analysis.calibration import Calibration, Terms
from skillopt.api import Inputs
from skillopt.app.calibrating import Noise
from skillopt.app.calibrating import calibrate as measure_noise
from skillopt.cli.arguments import CommandLine
from skillopt.cli.formatting import count
from skillopt.cli.progress import reporting
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.cli.tables import Table

_FAREWELL = "interrupted. Finished attempts are saved; run the same command to resume."


def calibrate(session: Session, given: CommandLine, *, effect: float, power: float) -> None:
    """Measure, then tell what the val set can see."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    spec = Inputs(config=configured(given, screen)).prepare(secrets)
    for each in spec.warnings:
        screen.warn(each)

    async def measure() -> Noise:
        with reporting(screen) as watch:
            return await measure_noise(spec, watch, secrets, effect=effect, power=power)

    found = run(measure(), screen, lambda: _FAREWELL)
    screen.show(*report(found.measured, found.terms))


_STEADY = (
    "No item changed its score between the two evaluations. Either the target is consistent, or "
    "it is deterministic (temperature 0, a cache), or it fails on every item. In the last two "
    "cases a harmless rewording of the skill may still change answers, and this measurement "
    "cannot show it. evaluation.gate: paired or sequential is safe in all cases."
)


def report(found: Calibration, terms: Terms) -> list[RenderableType]:
    """What was found, what it means, what to set."""
    advice = found.advice(terms)
    enough = advice.val <= found.tasks
    size = f"val {found.tasks} items (enough)" if enough else f"val {advice.val} items"
    listed = f"evaluation.gate: {advice.gate}, evaluation.replicates: {advice.replicates}, {size}"
    return [
        Text("noise", style="bold"),
        _rows(
            ("score", f"{found.score:.3f} on {count(found.tasks, 'item')}"),
            ("changed score", f"{found.flipping:.0%} of items, between two evaluations"),
            ("noise floor", f"{found.floor:.3f} (typical difference of two evaluations)"),
            ("strict gate", f"accepts a change without effect {found.luck:.0%} of the time"),
        ),
        Text(
            f"\nsmallest detectable gain on val ({count(terms.decisions, 'gate decision')}, "
            f"alpha {terms.alpha:g} for the run, power {terms.power:g})",
            style="bold",
        ),
        _rows(*((f"{count(n, 'attempt')} per item", _seen(found, terms, n)) for n in (1, 2, 3))),
        Text(f"\nsettings to detect a gain of {terms.effect:g}", style="bold"),
        Text(f"  {listed}"),
        *([] if found.flipping else [Text(f"\n{_STEADY}", style="yellow")]),
    ]


def _seen(found: Calibration, terms: Terms, replicates: int) -> str:
    smallest = found.smallest(terms, replicates)
    if smallest is None:
        return f"none: significance needs at least {terms.fewest} improved items"
    return f"{smallest:.3f}"


def _rows(*rows: tuple[str, str]) -> Table:
    made = Table("", "found", wrap=["found"], header=False, indent=2)
    for row in rows:
        made.add_row(*row)
    return made
