"""Converts an exception into a message and an exit code."""

from __future__ import annotations

import errno
import traceback

import click

from skillopt.cli.arguments import Session
from skillopt.cli.render import Screen, unwritable_output
from skillopt.config.redaction import redact
from skillopt.config.secrets import Secrets
from skillopt.errors import BudgetSpent, PartError, Pending, SkilloptError

INTERRUPTED = 130
"""The exit code."""


_OF_THE_MACHINE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EPERM,
    errno.EROFS,
}
"""What the machine refuses is no bug of ours."""


class Interrupted(Exception):
    """A signal ended the work; the message says what is kept."""


def explain(error: BaseException, session: Session) -> int:
    """Say what went wrong and, if possible, what to do; the exit code for it."""
    # First, because whoever uses standard output sends on what could not be written.
    unwritable = unwritable_output() if isinstance(error, OSError) else ""
    screen = Screen()
    match error:
        case Interrupted():
            screen.tell(str(error))
            return INTERRUPTED
        case click.Abort() | KeyboardInterrupt():
            screen.tell("interrupted")
            return INTERRUPTED
        case click.ClickException():
            if isinstance(error, click.UsageError) and error.ctx is not None:
                screen.tell(error.ctx.get_usage())
                screen.tell(f"Try '{error.ctx.command_path} --help' for help.\n")
            screen.complain(redact(error.format_message()))
            return error.exit_code
        case Pending() | BudgetSpent():
            screen.tell(str(error))
            return error.exit_code
        case SkilloptError():
            traced = _trace(error, session, screen)
            screen.complain(_clean(str(error), session))
            if isinstance(error, PartError) and not traced:
                screen.tell("Add --debug to see the traceback.")
            return error.exit_code
        case OSError() if unwritable or error.errno in _OF_THE_MACHINE:
            _trace(error, session, screen)
            told = f"cannot write to standard output: {unwritable}" if unwritable else str(error)
            screen.complain(_clean(told, session))
            return 1
        case _:
            traced = _trace(error, session, screen)
            screen.complain(_clean(f"unexpected {type(error).__name__}: {error}", session))
            hint = "" if traced else " Add --debug to see the traceback."
            screen.tell(
                f"This is a bug in skillopt; please report it. Finished work is saved.{hint}"
            )
            return 1


def _trace(error: BaseException, session: Session, screen: Screen) -> bool:
    wanted = session.debug or _debug_variable()
    if wanted:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        screen.tell(_clean("".join(lines), session))
    return wanted


def _debug_variable() -> bool:
    try:
        return Secrets.load().setting("SKILLOPT_DEBUG") not in (None, "0")
    except SkilloptError:  # an unreadable .env: this may be the very error at hand
        return False


def _clean(text: str, session: Session) -> str:
    return redact(session.hide(text))
