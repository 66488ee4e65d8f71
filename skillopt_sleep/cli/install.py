"""`install` and `uninstall`: the plugins of agent programs."""

from __future__ import annotations

from importlib.util import find_spec

import click

from skillopt.cli.render import Screen
from skillopt.core.extras import install_command
from skillopt.store.files import json_bytes
from skillopt_sleep import installing
from skillopt_sleep.settings import home_of, load

_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.command(short_help="Install the plugin of an agent program.")
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...")
@_JSON
def install(agents: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 - click calls it by name
    """Install the plugin of an agent: claude, codex, copilot, cursor, devin, gemini, openclaw,
    opencode, qwen. A second time brings it up to date.
    """  # noqa: D205 - the list of names is part of the first sentence
    state = home_of(load({}))
    steps = [installing.to_install(agent, state=state) for agent in dict.fromkeys(agents)]
    if find_spec("mcp") is None:
        Screen().warn(f"the MCP server of the plugin needs a package: {install_command('sleep')}")
    _tell([step() for step in steps], "wrote", as_json=as_json)


@click.command(short_help="Remove the plugin of an agent program.")
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...")
@_JSON
def uninstall(agents: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 - as above
    """Take the plugin of an agent away, and leave everything else as it was."""
    state = home_of(load({}))
    steps = [installing.to_uninstall(agent, state=state) for agent in dict.fromkeys(agents)]
    _tell([step() for step in steps], "removed our entry from", as_json=as_json)


def _tell(done: list[installing.Installation], changed: str, *, as_json: bool) -> None:
    """What was done, file by file; `changed` says it of the files that are there afterwards."""
    screen = Screen()
    if as_json:
        rows = [
            {
                "agent": each.agent,
                "changed": [str(path) for path in each.changed],
                "kept": [str(path) for path in each.kept],
                "note": each.note,
            }
            for each in done
        ]
        screen.show(json_bytes({"ok": True, "agents": rows}).decode().rstrip())
        return
    for each in done:
        for path in each.changed:
            screen.show(f"{each.agent}: {changed if path.exists() else 'removed'} {path}")
        if not each.changed:
            screen.show(f"{each.agent}: nothing to do")
        for path in each.kept:
            screen.warn(f"{path} was changed by you and is not removed")
        if each.note:
            screen.tell(each.note)
