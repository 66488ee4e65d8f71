"""`mcp`: the server for agents."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import click

from skillopt.core.extras import install_command
from skillopt.errors import ConfigError


@click.command(short_help="Serve the commands as tools of an MCP server.")
@click.option(
    "--project",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The project (default: the folder in which the server is started).",
)
def mcp(project: Path | None) -> None:
    """Offer the commands as tools of an MCP server on standard input and output."""
    if find_spec("mcp") is None:
        raise ConfigError(f"the MCP server needs a package: {install_command('sleep')}")
    from skillopt_sleep.mcp_server import SleepServer

    asyncio.run(SleepServer(project).serve())
