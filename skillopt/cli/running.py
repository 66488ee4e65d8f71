"""What every command does: load its settings, work until a signal comes, tell how it went."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar, cast

import click

from skillopt.aio import woken_by_signals
from skillopt.api import effective_config
from skillopt.cli.arguments import Session
from skillopt.cli.errors import INTERRUPTED, Interrupted
from skillopt.cli.progress import Reporter, reporting
from skillopt.cli.render import Screen
from skillopt.config.load import load_config
from skillopt.config.local_models import told_defaults
from skillopt.config.schema import Config
from skillopt.config.secrets import Secrets

T = TypeVar("T")

_GRACE = 2.5
"""Seconds for an orderly end. All finished work is on disk by then, so nothing is lost after it."""
_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Ctrl-C, a request to end, and a terminal that was closed: each is an orderly stop."""
RESUMABLE = "interrupted. Finished attempts are saved; run the same command to resume."


class Command:
    """What a command works with: its command line, the screen, the secrets, the event loop."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.given = session.given
        self.screen = Screen()

    @cached_property
    def secrets(self) -> Secrets:
        config = self.given.config
        return Secrets.load(project=config.parent if config else None)

    def unlock(self) -> Secrets:
        """The secrets; none of them shows in a message from now on. Says where they are from."""
        secrets = self.secrets
        self.session.hide = secrets.redact
        for notice in secrets.notices:
            self.screen.tell(notice, "dim")
        return secrets

    def config(self, *, required: bool = True) -> Config:
        """The configuration that the command line names; its warnings are passed on."""
        given = self.given
        if required and given.blank:
            raise click.UsageError(
                "no configuration file given. `skillopt quickstart` creates one that you can "
                "adapt.",
                click.get_current_context(silent=True),
            )
        return self.warned(load_config(given.config, overrides=given.overrides, flags=given.flags))

    def warned(self, config: Config) -> Config:
        if chosen := told_defaults(config):
            self.screen.tell(chosen)
        for warning in config.warnings:
            self.screen.warn(warning)
        return config

    def run(
        self, work: Coroutine[object, object, T], farewell: Callable[[], str] = lambda: RESUMABLE
    ) -> T:
        """Run to the end, or until SIGINT, SIGTERM or SIGHUP.

        Raises:
            Interrupted: With the words of `farewell`.
        """
        stop = _Stop(self.screen, farewell)
        stop.listen()
        try:
            return asyncio.run(woken_by_signals(stop.guard(work)))
        finally:
            stop.over()

    def watch(
        self,
        work: Callable[[Reporter], Coroutine[object, object, T]],
        farewell: Callable[[], str] = lambda: RESUMABLE,
    ) -> T:
        """The same, with progress on the screen."""

        async def watched() -> T:
            with reporting(self.screen) as report:
                return await work(report)

        return self.run(watched(), farewell)


def show_config(session: Session) -> None:
    command = Command(session)
    config = effective_config(command.config(required=False), secrets=command.secrets)
    command.screen.show(config.dump().rstrip("\n"))


@dataclass(slots=True)
class _Stop:
    """What a signal does: the first one cancels the work, the second ends the process.

    The handlers are Python's, not the event loop's, so they work while the loop is busy.
    """

    screen: Screen
    farewell: Callable[[], str]
    work: asyncio.Task[object] | None = None
    loop: asyncio.AbstractEventLoop | None = None
    late: threading.Timer | None = None
    before: dict[str, object] = field(default_factory=dict[str, object])
    """The handlers that were there."""

    def __call__(self, *_: object) -> None:
        if self.late is not None or self.loop is None:
            self._leave()
            return
        self.late = threading.Timer(_GRACE, self._leave)
        self.late.daemon = True
        self.late.start()
        self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.work is not None:
            self.work.cancel()
        self._tell("stopping ... (press Ctrl-C again to exit at once)", "dim")

    def listen(self) -> None:
        """From now on, signals come here."""
        for name in _STOPPING:
            with suppress(AttributeError, ValueError):  # not on Windows; not in another thread
                self.before[name] = signal.signal(getattr(signal, name), self)

    async def guard(self, work: Coroutine[object, object, T]) -> T:
        self.work, self.loop = asyncio.current_task(), asyncio.get_running_loop()
        try:
            return await work
        except BaseException as error:
            # Whatever work makes of its cancellation, it ended because it was asked to.
            if self.late is not None:
                raise Interrupted(self.farewell()) from error
            raise

    def over(self) -> None:
        """The work has ended: a signal that comes now finds nothing left to stop."""
        if self.late is not None:
            self.late.cancel()
        for name, handler in self.before.items():
            back = signal.SIG_IGN if self.late is not None else handler
            signal.signal(getattr(signal, name), cast("signal.Handlers", back))

    def _leave(self) -> None:
        with suppress(OSError):
            self.screen.restore()
        self._tell(self.farewell())
        os._exit(INTERRUPTED)

    def _tell(self, text: str, style: str = "") -> None:
        # The terminal may be what has gone; or it was being written to when the signal came.
        with suppress(OSError, RuntimeError):
            self.screen.tell(text, style)
