"""`skillopt model`: its commands. What they do is imported when they are called."""

from __future__ import annotations

import click

from skillopt.cli.session import debugging

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("model", context_settings=_CONTEXT)
def model_group() -> None:
    """Weights for backend `local`: models that run on this machine, without key or server."""


@model_group.command("list", context_settings=_CONTEXT)
@debugging
def list_models() -> None:
    """List the weights that can be fetched, and which of them are here."""
    from skillopt.cli.weights import show_all

    show_all()


@model_group.command(context_settings=_CONTEXT)
@click.argument("name")
@debugging
def fetch(name: str) -> None:
    """Download the weights NAME. After an interruption, the same command goes on."""
    from skillopt.cli.weights import fetch, show_path

    fetch(name)
    show_path(name)


@model_group.command(context_settings=_CONTEXT)
@click.argument("name")
@debugging
def path(name: str) -> None:
    """Print where the file of the weights NAME is."""
    from skillopt.cli.weights import show_path

    show_path(name)


@model_group.command(context_settings=_CONTEXT)
@click.argument("name")
@debugging
def remove(name: str) -> None:
    """Delete the weights NAME from this machine."""
    from skillopt.cli.weights import remove

    remove(name)
