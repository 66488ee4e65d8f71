"""`skillopt calibrate`: the noise of scores, and settings that suit it."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from skillopt.api import Noise, calibrate_async, prepare
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import count
from skillopt.cli.running import Command
from skillopt.cli.tables import Table


def calibrate(session: Session, *, effect: float, power: float) -> None:
    command = Command(session)
    secrets = command.unlock()
    spec = prepare(command.config(), secrets=secrets)
    for warning in spec.warnings:
        command.screen.warn(warning)
    noise = command.watch(
        lambda watch: calibrate_async(
            spec, effect=effect, power=power, watch=watch, progress=False, secrets=secrets
        )
    )
    command.screen.show(*report(noise))


_STEADY = (
    "No item changed its score between the two evaluations. Either the target is consistent, or "
    "it is deterministic (temperature 0, a cache), or it fails on every item. In the last two "
    "cases a harmless rewording of the skill may still change answers, and this measurement "
    "cannot show it. evaluation.gate: paired or sequential is safe in all cases."
)


def report(noise: Noise) -> list[RenderableType]:
    """What was found, what it means, what to set."""
    measured, terms, advice = noise.measured, noise.terms, noise.advice
    enough = advice.val <= measured.tasks
    size = f"val {measured.tasks} items (enough)" if enough else f"val {advice.val} items"
    listed = f"evaluation.gate: {advice.gate}, evaluation.replicates: {advice.replicates}, {size}"
    return [
        Text("noise", style="bold"),
        _rows(
            ("score", f"{measured.score:.3f} on {count(measured.tasks, 'item')}"),
            ("changed score", f"{measured.flipping:.0%} of items, between two evaluations"),
            ("noise floor", f"{measured.floor:.3f} (typical difference of two evaluations)"),
            ("strict gate", f"accepts a change without effect {measured.luck:.0%} of the time"),
        ),
        Text(
            f"\nsmallest detectable gain on val ({count(terms.decisions, 'gate decision')}, "
            f"alpha {terms.alpha:g} for the run, power {terms.power:g})",
            style="bold",
        ),
        _rows(*((f"{count(n, 'attempt')} per item", _smallest_gain(noise, n)) for n in (1, 2, 3))),
        Text(f"\nsettings to detect a gain of {terms.effect:g}", style="bold"),
        Text(f"  {listed}"),
        *([] if measured.flipping else [Text(f"\n{_STEADY}", style="yellow")]),
    ]


def _smallest_gain(noise: Noise, replicates: int) -> str:
    smallest = noise.measured.smallest(noise.terms, replicates)
    if smallest is None:
        return f"none: significance needs at least {noise.terms.fewest} improved items"
    return f"{smallest:.3f}"


def _rows(*rows: tuple[str, str]) -> Table:
    return Table("", "found", wrap=["found"], header=False, indent=2, rows=rows)
