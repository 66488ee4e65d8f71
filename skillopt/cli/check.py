"""`skillopt check`: problems of data and scorer, or items copied by a skill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from skillopt.analysis.integrity.findings import CheckFinding, Verdict
from skillopt.api import check_async
from skillopt.cli.arguments import CommandLine
from skillopt.cli.formatting import count
from skillopt.cli.progress import reporting
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.cli.tables import Table
from skillopt.config.secrets import Secrets

_STYLES: dict[Verdict, str] = {"ok": "green", "look": "yellow", "bad": "bold red", "left out": ""}


def check(
    session: Session,
    given: CommandLine,
    *,
    skill: Path | None,
    sample: int | None,
    as_json: bool,
) -> int:
    """Look at everything, show it; the exit code."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    if given.config is not None and given.config.is_dir():
        if given.overrides or given.flags:
            raise click.UsageError(
                "a run is checked with its own settings; to use others: "
                "skillopt check CONFIG KEY=VALUE --skill FILE"
            )
        work = check_async(given.config, trained=skill)
    else:
        work = _of_config(given, skill, sample, secrets, screen)
    found = run(work, screen, lambda: "interrupted")
    bad = sum(each.verdict == "bad" for each in found)
    if as_json:
        document = {"ok": not bad, "findings": [asdict(each) for each in found]}
        screen.show(session.hide(json.dumps(document, indent=2, ensure_ascii=False)))
    else:
        show(found, session, screen)
        screen.tell(
            f"{count(bad, 'finding')} bad" if bad else "no bad findings", "bold red" * bool(bad)
        )
        if not bad and skill is None and given.config is not None and given.config.is_file():
            screen.tell(f"next: {given.command('estimate', {})}")
    return 1 if bad else 0


async def _of_config(
    given: CommandLine, skill: Path | None, sample: int | None, secrets: Secrets, screen: Screen
) -> list[CheckFinding]:
    config = configured(given, screen)
    if sample is None or skill is not None:
        return await check_async(config, trained=skill)
    with reporting(screen) as watch:
        return await check_async(config, sample=sample, watch=watch, secrets=secrets)


def show(found: Sequence[CheckFinding], session: Session, screen: Screen) -> None:
    """The table, then what to do, with examples."""
    made = Table("check", "verdict", "found", wrap=["found"])
    for each in found:
        verdict = Text(each.verdict, style=_STYLES[each.verdict])
        made.add_row(each.check, verdict, session.hide(each.found))
    screen.show(made)
    advised = [each for each in found if each.advice]
    if advised:
        screen.show(Text("\nwhat to do", style="bold"))
    for each in advised:
        screen.show(f"  {each.check}: {session.hide(each.advice)}")
        for example in each.examples:
            screen.show(Text(f"    {session.hide(example)}", style="dim"))
