"""`skillopt doctor`: checks what a run needs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from skillopt.api import doctor_async
from skillopt.build.checkup import DoctorFinding, State
from skillopt.cli.arguments import CommandLine
from skillopt.cli.machine import check_machine
from skillopt.cli.phrases import count
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.cli.tables import Table

_STYLES: dict[State, str] = {"ok": "green", "note": "", "warning": "yellow", "failure": "bold red"}


def doctor(session: Session, given: CommandLine, *, offline: bool) -> int:
    """Look at everything, show it; the exit code."""
    screen = Screen()
    secrets = unlocked(session, given.config)
    checks = check_machine(secrets)
    config = None if given.blank else configured(given, screen)
    work = doctor_async(config, offline=offline, secrets=secrets)
    checks += run(work, screen, lambda: "interrupted")
    _show(checks, session, screen)
    failures = sum(each.state == "failure" for each in checks)
    if failures:
        screen.tell(f"{count(failures, 'check')} failed", "bold red")
        return 1
    named = "all checks passed"
    screen.tell("give a configuration file to check models and data too" if given.blank else named)
    return 0


def _show(checks: Sequence[DoctorFinding], session: Session, screen: Screen) -> None:
    made = Table("check", "state", "found", wrap=["found"])
    for each in checks:
        state = Text(each.state, style=_STYLES[each.state])
        made.add_row(each.what, state, session.hide(each.found))
    screen.show(made)
    advised = [each for each in checks if each.advice]
    if advised:
        screen.show(Text("\nwhat to do", style="bold"))
    for each in advised:
        subject = "" if each.advice.startswith(each.what) else f"{each.what}: "
        screen.show(f"  {subject}{session.hide(each.advice)}")
