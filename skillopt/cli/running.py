"""Runs a command so that Ctrl-C and signals stop it cleanly."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar, cast

from skillopt.aio import woken_by_signals
from skillopt.cli.render import Screen

T = TypeVar("T")

INTERRUPTED = 130
"""The exit code."""
GRACE = 2.5
"""Seconds for an orderly end. All finished work is on disk by then, so nothing is lost after it."""


_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Ctrl-C, a request to end, and a terminal that was closed: each is an orderly stop."""


class Interrupted(Exception):
    """A signal ended the work; the message says what is kept."""


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
        self.late = threading.Timer(GRACE, self._leave)
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


def run(work: Coroutine[object, object, T], screen: Screen, farewell: Callable[[], str]) -> T:
    """Run to the end, or until SIGINT, SIGTERM or SIGHUP.

    Raises:
        Interrupted: With the words of `farewell`.
    """
    stop = _Stop(screen, farewell)
    stop.listen()
    try:
        return asyncio.run(woken_by_signals(stop.guard(work)))
    finally:
        stop.over()
