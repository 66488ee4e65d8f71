"""`skillopt doctor`: is everything there that a run needs?"""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Sequence

from rich.text import Text

from skillopt import __version__
from skillopt.api import doctor_async
from skillopt.app.doctor import DoctorFinding, State
from skillopt.app.models import PROVIDERS
from skillopt.cli.arguments import CommandLine
from skillopt.cli.discovery import SERVERS, first_model
from skillopt.cli.formatting import count
from skillopt.cli.render import Screen
from skillopt.cli.running import run
from skillopt.cli.session import Session
from skillopt.cli.settings import configured, unlocked
from skillopt.cli.tables import Table
from skillopt.config.schema import Role
from skillopt.config.secrets import Secrets
from skillopt.core.extras import install_command
from skillopt.errors import ConfigError
from skillopt.model.provider import names_for
from skillopt.model.weights import CATALOGUE, Folder, default_root

_PROGRAMS = {
    "claude": "claude_cli",
    "codex": "codex_cli",
    "copilot": "copilot_chat",
}
"""Programs that serve as models, with their backends."""
_ROLES: tuple[Role, ...] = ("target", "optimizer", "judge")


def check_machine(secrets: Secrets) -> list[DoctorFinding]:
    """Everything that needs no configuration; nothing leaves the machine."""
    return [
        DoctorFinding("skillopt", "ok", f"{__version__}, Python {platform.python_version()}"),
        _sandbox(secrets),
        _keys(secrets),
        _servers(),
        _programs(secrets),
        _weights(secrets),
    ]


def _sandbox(secrets: Secrets) -> DoctorFinding:
    if path := shutil.which("bwrap", path=secrets.setting("PATH")):
        return DoctorFinding("sandbox", "ok", path)
    return DoctorFinding(
        "sandbox",
        "note",
        "bubblewrap (bwrap) is not installed; only environments that run code need it",
    )


def _keys(secrets: Secrets) -> DoctorFinding:
    """Names of variables, never their values."""
    found = sorted(name for name in key_variables() if secrets.get(name) is not None)
    return DoctorFinding("keys", "ok" if found else "note", ", ".join(found) or "none set")


def key_variables() -> set[str]:
    """The environment variables that backends read their keys from, for every role."""
    names: set[str] = set()
    for backend in PROVIDERS.names:
        try:
            provider = PROVIDERS.load(backend)
        except ConfigError:  # an extra that is not installed
            continue
        for role in _ROLES:
            names |= set(names_for(role, provider.key_variables))
    return names


def _servers() -> DoctorFinding:
    found = [
        f"{model} by {name} on port {port}"
        for name, port in SERVERS
        if (model := first_model(f"http://127.0.0.1:{port}/v1"))
    ]
    told = ", ".join(found) or "none on the usual ports of this machine"
    return DoctorFinding("servers", "ok" if found else "note", told)


def _programs(secrets: Secrets) -> DoctorFinding:
    path = secrets.setting("PATH")
    found = [
        f"{program} (backend {backend})"
        for program, backend in _PROGRAMS.items()
        if shutil.which(program, path=path)
    ]
    return DoctorFinding("programs", "ok" if found else "note", ", ".join(found) or "none on PATH")


def _weights(secrets: Secrets) -> DoctorFinding:
    folder = Folder(default_root(secrets.setting))
    found = [each.name for each in CATALOGUE if folder.has(each)]
    if not found:
        return DoctorFinding(
            "weights", "note", "none; `skillopt model list` shows what can be downloaded"
        )
    if importlib.util.find_spec("xllamacpp") is None:
        advice = install_command("local")
        return DoctorFinding(
            "weights", "warning", f"{', '.join(found)}; llama.cpp is not installed", advice
        )
    return DoctorFinding("weights", "ok", ", ".join(found))


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
