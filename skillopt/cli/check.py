"""`skillopt check` and `doctor`: findings about data, scorer, skill, models and machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from skillopt.analysis.integrity.findings import CheckFinding
from skillopt.api import check_async, doctor_async
from skillopt.app.doctor import DoctorFinding
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import count
from skillopt.cli.running import Command
from skillopt.cli.tables import Table

_STYLES = {
    "ok": "green",
    "look": "yellow",
    "warning": "yellow",
    "bad": "bold red",
    "failure": "bold red",
}


def check(session: Session, *, skill: Path | None, sample: int | None, as_json: bool) -> int:
    command, given = Command(session), session.given
    secrets, screen = command.unlock(), command.screen
    if given.config is not None and given.config.is_dir():
        if given.overrides or given.flags:
            raise click.UsageError(
                "a run is checked with its own settings; to use others: "
                "skillopt check CONFIG KEY=VALUE --skill FILE"
            )
        findings = command.run(check_async(given.config, trained=skill), _interrupted)
    else:
        config = command.config()
        findings = command.watch(
            lambda watch: check_async(
                config, trained=skill, sample=sample, watch=watch, secrets=secrets
            ),
            _interrupted,
        )
    bad = sum(finding.verdict == "bad" for finding in findings)
    if as_json:
        document = {"ok": not bad, "findings": [asdict(finding) for finding in findings]}
        screen.show(session.hide(json.dumps(document, indent=2, ensure_ascii=False)))
    else:
        _show(command, "verdict", [(each.check, each.verdict, each) for each in findings])
        screen.tell(
            f"{count(bad, 'finding')} bad" if bad else "no bad findings", "bold red" * bool(bad)
        )
        if not bad and skill is None and given.config is not None and given.config.is_file():
            screen.tell(f"next: {given.command('estimate', {})}")
    return 1 if bad else 0


def doctor(session: Session, *, offline: bool) -> int:
    command, blank = Command(session), session.given.blank
    secrets = command.unlock()
    config = None if blank else command.config()
    work = doctor_async(config, offline=offline, machine=True, secrets=secrets)
    findings = command.run(work, _interrupted)
    _show(command, "state", [(each.what, each.state, each) for each in findings])
    failures = sum(finding.state == "failure" for finding in findings)
    if failures:
        command.screen.tell(f"{count(failures, 'check')} failed", "bold red")
        return 1
    passed = "all checks passed"
    more = "give a configuration file to check models and data too"
    command.screen.tell(more if blank else passed)
    return 0


def _interrupted() -> str:
    return "interrupted"


def _show(
    command: Command, column: str, rows: Sequence[tuple[str, str, CheckFinding | DoctorFinding]]
) -> None:
    """A table of the findings by name and verdict, then what to do, with examples."""
    screen, hide = command.screen, command.session.hide
    cells = (
        (name, Text(verdict, style=_STYLES.get(verdict, "")), hide(finding.found))
        for name, verdict, finding in rows
    )
    screen.show(Table("check", column, "found", wrap=["found"], rows=cells))
    advised = [(name, finding) for name, _, finding in rows if finding.advice]
    if advised:
        screen.show(Text("\nwhat to do", style="bold"))
    for name, finding in advised:
        repeated = isinstance(finding, DoctorFinding) and finding.advice.startswith(name)
        subject = "" if repeated else f"{name}: "
        screen.show(f"  {subject}{hide(finding.advice)}")
        for example in finding.examples if isinstance(finding, CheckFinding) else ():
            screen.show(Text(f"    {hide(example)}", style="dim"))
