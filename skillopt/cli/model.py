"""`skillopt model`: its commands. Their implementation is imported when they are called."""

from __future__ import annotations

import click

from skillopt.cli.session import debugging

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("model", context_settings=_CONTEXT)
def model_group() -> None:
    """Manage models for backend `local`, which run on this machine."""


@model_group.command("list", context_settings=_CONTEXT)
@debugging
def list_models() -> None:
    """List the models that can be downloaded, and which of them are on this machine."""
    from skillopt.cli.weights import show_all

    show_all()


@model_group.command(context_settings=_CONTEXT)
@click.argument("name")
@debugging
def fetch(name: str) -> None:
    """Download the model NAME. Run the same command again to resume a download."""
    from skillopt.cli.weights import fetch, show_path

    fetch(name)
    show_path(name)


@model_group.command(context_settings=_CONTEXT)
@click.argument("name")
@debugging
def path(name: str) -> None:
    """Print the path of the weights file of the model NAME."""
    from skillopt.cli.weights import show_path

    show_path(name)


@model_group.command(context_settings=_CONTEXT)
@click.argument("name")
@debugging
def remove(name: str) -> None:
    """Delete the weights file of the model NAME from this machine."""
    from skillopt.cli.weights import remove

    remove(name)
