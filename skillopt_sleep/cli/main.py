"""`skillopt-sleep`: its commands, each imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn

import click

from skillopt import __version__

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMANDS: Final = {
    "run": "skillopt_sleep.cli.night:run",
    "dry-run": "skillopt_sleep.cli.night:dry_run",
    "status": "skillopt_sleep.cli.night:status",
    "demo": "skillopt_sleep.cli.night:demo",
    "harvest": "skillopt_sleep.cli.harvest:harvest",
    "adopt": "skillopt_sleep.cli.adopt:adopt",
    "rollback": "skillopt_sleep.cli.adopt:rollback",
    "schedule": "skillopt_sleep.cli.schedule:schedule",
    "unschedule": "skillopt_sleep.cli.schedule:unschedule",
    "install": "skillopt_sleep.cli.install:install",
    "uninstall": "skillopt_sleep.cli.install:uninstall",
    "mcp": "skillopt_sleep.cli.mcp:mcp",
    "hook": "skillopt_sleep.cli.hook:hook",
}


def _set_debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    from skillopt.cli.arguments import Session

    ctx.ensure_object(Session).debug = wanted


_DEBUG: Final = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    callback=_set_debug,
    help="Print the traceback of an error.",
)


class Lazy(click.Group):
    """A group whose commands are imported when they are asked for; each can be debugged."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ctx.fail(
                f"No such option {error.option_name!r} before a command; those of a command stand "
                f"behind it: skillopt-sleep COMMAND {error.option_name}"
            )

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in COMMANDS:
            from skillopt.core.nearest import did_you_mean

            near = did_you_mean(cmd_name, COMMANDS)
            ctx.fail(f"No such command {cmd_name!r}{f'; {near}' if near else '.'}")
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        if _DEBUG not in command.params:
            command.params.append(_DEBUG)
        return command


@click.group(cls=Lazy, context_settings=_CONTEXT)
@click.version_option(__version__, message="skillopt-sleep %(version)s")
def app() -> None:
    """Learn from the sessions of your coding agents: harvest, replay, propose, adopt."""


def main() -> NoReturn:
    """`skillopt-sleep`."""
    sys.exit(enter(sys.argv[1:]))


def enter(words: Sequence[str]) -> int:
    """Run a command; its exit code."""
    from skillopt.cli.arguments import Session

    session = Session()
    try:
        done = app.main(
            [*words] or ["--help"], "skillopt-sleep", standalone_mode=False, obj=session
        )
        return done if isinstance(done, int) else 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort
        from skillopt.cli.errors import explain

        code = _exit_code(error, explain(error, session))
        if "--json" in words:
            from skillopt.cli.render import Screen
            from skillopt.config.redaction import redact
            from skillopt.store.files import json_bytes

            words_of = error.format_message() if isinstance(error, click.ClickException) else error
            told = {"ok": False, "error": type(error).__name__, "message": redact(str(words_of))}
            Screen().show(json_bytes(told).decode().rstrip())
        return code


def _exit_code(error: BaseException, code: int) -> int:
    """0 done, 1 failed or nothing to do, 2 used wrongly or refused, 3 answers are needed."""
    from skillopt.errors import ConfigError, Pending, SkilloptError

    if isinstance(error, Pending):
        return 3
    if isinstance(error, ConfigError):
        return 2
    return code if code == 2 or not isinstance(error, SkilloptError) else 1
