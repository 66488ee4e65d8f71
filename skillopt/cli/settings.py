"""The configuration that a command line asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import click

from skillopt.cli.arguments import Given
from skillopt.cli.render import Screen
from skillopt.cli.session import Session
from skillopt.config.load import load_config, load_kept
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets
from skillopt.errors import ConfigError
from skillopt.store.layout import Layout


def configured(given: Given, screen: Screen) -> Config:
    """Load it, and pass its warnings on."""
    if given.blank:
        raise click.UsageError(
            "name a configuration file. None yet? `skillopt quickstart` makes one to copy from.",
            click.get_current_context(silent=True),
        )
    config = load_config(given.config, overrides=given.overrides, flags=given.flags)
    for each in config.warnings:
        screen.warn(each)
    return config


def of_run(run: Path, given: Given, screen: Screen) -> Config:
    """The settings that a run was started with last, with those given on top."""
    place = Layout(run).config
    try:
        kept = cast("dict[str, object]", json.loads(place.read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{place} cannot be read ({error}); `skillopt train` writes it again"
        ) from error
    config = load_kept(kept, overrides=given.overrides, flags=given.flags)
    for each in config.warnings:
        screen.warn(each)
    return config


def unlocked(session: Session) -> Secrets:
    """The secrets; none of them shows in a message from now on."""
    secrets = Secrets.load()
    session.hide = secrets.redact
    return secrets


def show_config(given: Given) -> None:
    """Print every setting."""
    screen = Screen()
    config = load_config(given.config, overrides=given.overrides, flags=given.flags)
    for each in config.warnings:
        screen.warn(each)
    screen.show(config.dump().rstrip("\n"))
