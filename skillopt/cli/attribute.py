"""`skillopt attribute`: the effect and the origin of each rule of a run's best skill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from skillopt.api import attribute_async
from skillopt.app.attributing import AttributionPlan, plan_attribution
from skillopt.cli.arguments import CommandLine
from skillopt.cli.formatting import ACTIONS, consumed, count, gain, quoted, some, spelt
from skillopt.cli.progress import reporting
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import of_run, unlocked
from skillopt.cli.tables import Table
from skillopt.core.attribution import Attributed, Attribution, Origin
from skillopt.core.rules import Rule
from skillopt.core.skill import MAIN
from skillopt.errors import ConfigError, DataError
from skillopt.store.reader import RunReader

_FAREWELL = "interrupted. Finished attempts are saved; run the same command to resume."
_WIDE = 72
"""Characters of a rule that are shown."""
_COLOURS = {"useful": "green", "harmful": "red", "unclear": "", "no effect": "dim"}


def attribute(session: Session, given: CommandLine, folder: Path, *, tasks: int, dry: bool) -> None:
    """Say what it costs, measure, and show the rules, the most valuable first."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    with RunReader(folder) as reader:
        skill = reader.layout.best_skill
        config = of_run(reader, given, screen)
        try:
            inquiry = plan_attribution(config, reader, tasks)
        except (ConfigError, DataError) as error:
            raise type(error)(
                f"{error}\nif the data has moved, give its new location: "
                f"skillopt attribute {quoted(folder)} env.data_path=FILE (or env.split_dir=FOLDER)"
            ) from error
    if not inquiry.rules:
        screen.tell(f"{skill} has no rules (bullets or sections), so there is nothing to measure")
        return
    (screen.show if dry else screen.tell)(foreseen(inquiry))
    if dry:
        return

    async def measure() -> Attribution:
        with reporting(screen) as watch:
            return await attribute_async(inquiry, watch=watch, progress=False, secrets=secrets)

    found = run(measure(), screen, lambda: _FAREWELL)
    screen.show(_table(found.rules), "", _tally(found))
    screen.show(f"for each line of the skill: skillopt blame {quoted(skill)}")


def foreseen(inquiry: AttributionPlan) -> str:
    """What is tried, and what that takes."""
    tried = f"{count(len(inquiry.rules), 'rule')}, each removed on {len(inquiry.tasks)} val tasks"
    if not inquiry.new:
        return f"{tried}: {inquiry.attempts} attempts, all cached, no cost"
    known = f"{inquiry.known} cached, " if inquiry.known else ""
    cost = f", about {consumed(inquiry.cost)}" if inquiry.spent.calls else ""
    return f"{tried}: {inquiry.attempts} attempts, {known}{inquiry.new} new{cost}"


def _table(rules: Sequence[Attributed]) -> Table:
    columns = ("effect [95 %]", "changed", "verdict", "rule")
    made = Table(*columns, right=["changed"], wrap=["rule"], title="rule")
    for each in sorted(rules, key=lambda each: -each.worth.gain):
        worth = each.worth
        made.add_row(
            gain(worth),
            f"{worth.changed} of {worth.n}",
            Text(worth.verdict, style=_COLOURS[worth.verdict]),
            Text.assemble(_shown(worth.rule), "\n", (_lineage(each.origins), "dim")),
        )
    return made


def came_from(origins: Sequence[Origin]) -> str:
    """The moves that wrote it, and who proposed it there."""
    return ", ".join(
        f"{spelt(each.move)} ({', '.join(each.by)})" if each.by else spelt(each.move)
        for each in origins
    )


def evidence(origins: Sequence[Origin]) -> str:
    """The tasks that speak for it."""
    failures = list(dict.fromkeys(task for each in origins for task in each.failures))
    successes = list(dict.fromkeys(task for each in origins for task in each.successes))
    told = (
        f"failed {some(failures)}" if failures else "",
        f"passed {some(successes)}" if successes else "",
    )
    return "; ".join(part for part in told if part)


def _lineage(origins: Sequence[Origin]) -> str:
    verdicts = [f"{ACTIONS[each.action][0]}: {each.reason}" for each in origins if each.action]
    parts = (came_from(origins), evidence(origins), "; ".join(verdicts))
    return "  " + "; ".join(part for part in parts if part)


def _shown(rule: Rule) -> str:
    text = " ".join(rule.text.split())
    place = "" if rule.file == MAIN else f"{rule.file}: "
    return place + (text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}...")


def _tally(found: Attribution) -> str:
    """How many rules are what, and what the words mean."""
    verdicts = Counter(each.worth.verdict for each in found.rules)
    counted = ", ".join(f"{verdicts[each]} {each}" for each in _COLOURS if verdicts[each])
    told = f"{count(len(found.rules), 'rule')}: {counted}"
    if verdicts["unclear"] or verdicts["no effect"]:
        told += f" (on {len(found.tasks)} tasks; use --tasks N for more)"
    return told
