"""Loads the configuration of a command from its arguments."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt.app.models import with_backend_defaults
from skillopt.cli.arguments import CommandLine
from skillopt.cli.render import Screen
from skillopt.cli.session import Session
from skillopt.config.load import load_config, load_kept
from skillopt.config.local_models import told_defaults
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.store.reader import RunReader


def configured(given: CommandLine, screen: Screen) -> Config:
    """Load it, and pass its warnings on."""
    if given.blank:
        raise click.UsageError(
            "no configuration file given. `skillopt quickstart` creates one that you can adapt.",
            click.get_current_context(silent=True),
        )
    return _loaded(given, screen)


def of_run(run: RunReader, given: CommandLine, screen: Screen) -> Config:
    """The settings that a run was started with last, with those given on top."""
    return _warned(load_kept(run.config, overrides=given.overrides, flags=given.flags), screen)


def unlocked(session: Session, config: Path | None = None) -> Secrets:
    """The secrets; none of them shows in a message from now on. Says which files they are from."""
    secrets = Secrets.load(project=config.parent if config else None)
    session.hide = secrets.redact
    for notice in secrets.notices:
        Screen().tell(notice, "dim")
    return secrets


def show_config(given: CommandLine) -> None:
    """Print every setting."""
    screen = Screen()
    secrets = Secrets.load(project=given.config.parent if given.config else None)
    screen.show(with_backend_defaults(_loaded(given, screen), secrets).dump().rstrip("\n"))


def _loaded(given: CommandLine, screen: Screen) -> Config:
    found = load_config(given.config, overrides=given.overrides, flags=given.flags)
    return _warned(found, screen)


def _warned(config: Config, screen: Screen) -> Config:
    if chosen := told_defaults(config):
        screen.tell(chosen)
    for each in config.warnings:
        screen.warn(each)
    return config
