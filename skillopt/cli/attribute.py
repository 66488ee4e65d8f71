"""`skillopt attribute` and `blame`: the effect of each rule, and the origin of each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.text import Text

from skillopt.api import attribute_async, blame, open_run, plan_attribution
from skillopt.app.attributing import AttributionPlan, BlamedLine
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import ACTIONS, consumed, count, gain, quoted, some, spelt
from skillopt.cli.render import Screen
from skillopt.cli.running import Command
from skillopt.cli.tables import Table
from skillopt.config.load import load_kept
from skillopt.core.attribution import Attributed, Attribution, Origin
from skillopt.core.rules import Rule
from skillopt.core.skill import MAIN

_WIDE = 72
"""Characters of a rule that are shown."""
_COLOURS = {"useful": "green", "harmful": "red", "unclear": "", "no effect": "dim"}


def attribute(session: Session, folder: Path, *, tasks: int, dry: bool) -> None:
    """Say what it costs, measure, and show the rules, the most valuable first."""
    command, given = Command(session), session.given
    secrets, screen = command.unlock(), command.screen
    with open_run(folder) as reader:
        skill = reader.layout.best_skill
        config = load_kept(reader.config, overrides=given.overrides, flags=given.flags)
    plan = plan_attribution(folder, tasks=tasks, config=command.warned(config))
    if not plan.rules:
        screen.tell(f"{skill} has no rules (bullets or sections), so there is nothing to measure")
        return
    (screen.show if dry else screen.tell)(_foreseen(plan))
    if dry:
        return
    attribution = command.watch(
        lambda watch: attribute_async(plan, watch=watch, progress=False, secrets=secrets)
    )
    screen.show(_table(attribution.rules), "", _tally(attribution))
    screen.show(f"for each line of the skill: skillopt blame {quoted(skill)}")


def _foreseen(plan: AttributionPlan) -> str:
    """What is tried, and what that takes."""
    tried = (
        f"{count(len(plan.rules), 'rule')}, each removed on {count(len(plan.tasks), 'val task')}"
    )
    if not plan.new:
        return f"{tried}: {plan.attempts} attempts, all cached, no cost"
    cached = f"{plan.cached} cached, " if plan.cached else ""
    cost = f", about {consumed(plan.cost)}" if plan.spent.calls else ""
    return f"{tried}: {plan.attempts} attempts, {cached}{plan.new} new{cost}"


def _table(rules: Sequence[Attributed]) -> Table:
    columns = ("effect [95 %]", "changed", "verdict", "rule")
    table = Table(*columns, right=["changed"], wrap=["rule"], title="rule")
    for rule in sorted(rules, key=lambda rule: -rule.worth.gain):
        worth = rule.worth
        table.add_row(
            gain(worth),
            f"{worth.changed} of {worth.n}",
            Text(worth.verdict, style=_COLOURS[worth.verdict]),
            Text.assemble(_shown(worth.rule), "\n", (_lineage(rule.origins), "dim")),
        )
    return table


def _came_from(origins: Sequence[Origin]) -> str:
    """The moves that wrote it, and who proposed it there."""
    return ", ".join(
        f"{spelt(origin.move)} ({', '.join(origin.by)})" if origin.by else spelt(origin.move)
        for origin in origins
    )


def _evidence(origins: Sequence[Origin]) -> str:
    """The tasks that speak for it."""
    failures = list(dict.fromkeys(task for origin in origins for task in origin.failures))
    successes = list(dict.fromkeys(task for origin in origins for task in origin.successes))
    failed = f"failed {some(failures)}" if failures else ""
    passed = f"passed {some(successes)}" if successes else ""
    return "; ".join(filter(None, (failed, passed)))


def _lineage(origins: Sequence[Origin]) -> str:
    verdicts = [
        f"{ACTIONS[origin.action][0]}: {origin.reason}" for origin in origins if origin.action
    ]
    parts = (_came_from(origins), _evidence(origins), "; ".join(verdicts))
    return "  " + "; ".join(filter(None, parts))


def _shown(rule: Rule) -> str:
    text = " ".join(rule.text.split())
    place = "" if rule.file == MAIN else f"{rule.file}: "
    return place + (text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}...")


def _tally(attribution: Attribution) -> str:
    """How many rules are what, and how to find out more."""
    verdicts = Counter(rule.worth.verdict for rule in attribution.rules)
    counted = ", ".join(f"{verdicts[name]} {name}" for name in _COLOURS if verdicts[name])
    tally = f"{count(len(attribution.rules), 'rule')}: {counted}"
    if verdicts["unclear"]:
        tally += f" (on {count(len(attribution.tasks), 'task')}; use --tasks N for more)"
    return tally


def show_blame(path: Path, run: Path | None) -> None:
    screen, blamed = Screen(), blame(path, run)
    for file, lines in groupby(blamed.lines, lambda line: line.file):
        if file != MAIN:
            screen.show(Text(f"\n{file}", style="bold"))
        screen.show(
            Table(
                *("line", "from", "evidence", "value", "text"),
                wrap=("from", "evidence", "text"),
                title="text",
                header=False,
                rows=map(_annotated, lines),
            )
        )
    if not blamed.measured and blamed.is_best:
        screen.tell(f"to measure effects: skillopt attribute {quoted(blamed.run)}", "dim")
    elif not blamed.measured:
        screen.tell("no effects shown: they are measured for the best skill of a run only")


def _annotated(line: BlamedLine) -> list[Text]:
    """A line behind what is known of it."""
    if line.origin is not None:
        source, evidence = _came_from([line.origin]), _evidence([line.origin])
    else:
        source, evidence = "not from this run" if line.text.strip() else "", ""
    value = "" if line.rule is None else gain(line.worth) if line.worth else "not measured"
    notes = (Text(note, style="dim") for note in (str(line.number), source, evidence, value))
    return [*notes, Text.assemble(("| ", "dim"), line.text)]
