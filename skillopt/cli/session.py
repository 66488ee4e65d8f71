"""What error handling needs to know about the running command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click


@dataclass(slots=True)
class Session:
    """One call of the program. Light, because `--help` makes one too."""

    debug: bool = False
    hide: Callable[[str], str] = str
    """Takes secrets out of a text, once there are any to know of."""


def _debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's
    ctx.ensure_object(Session).debug = wanted


debugging = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_debug,
    help="Print the traceback of an error.",
)
