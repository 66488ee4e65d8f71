"""Work that Ctrl-C ends in order."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

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
    """What a signal does: the first one cancels the work, the second ends the process."""

    screen: Screen
    farewell: Callable[[], str]
    work: asyncio.Task[object] | None = None
    late: threading.Timer | None = None

    def __call__(self) -> None:
        if self.late is not None or self.work is None:
            self._leave()
            return
        self.work.cancel()
        self.late = threading.Timer(GRACE, self._leave)
        self.late.daemon = True
        self.late.start()
        self._tell("stopping ... (press Ctrl-C again to exit at once)", "dim")

    async def guard(self, work: Coroutine[object, object, T]) -> T:
        self.work = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for name in _STOPPING:
            with suppress(NotImplementedError, AttributeError):  # Windows: a KeyboardInterrupt
                loop.add_signal_handler(getattr(signal, name), self)
        try:
            return await work
        except BaseException as error:
            # Whatever work makes of its cancellation, it ended because it was asked to.
            if self.late is not None:
                raise Interrupted(self.farewell()) from error
            raise

    def over(self) -> None:
        if self.late is not None:
            self.late.cancel()

    def _leave(self) -> None:
        with suppress(OSError):
            self.screen.restore()
        self._tell(self.farewell())
        os._exit(INTERRUPTED)

    def _tell(self, text: str, style: str = "") -> None:
        with suppress(OSError):  # the terminal may be what has gone
            self.screen.tell(text, style)


def run(work: Coroutine[object, object, T], screen: Screen, farewell: Callable[[], str]) -> T:
    """Run to the end, or until SIGINT, SIGTERM or SIGHUP.

    Raises:
        Interrupted: With the words of `farewell`.
    """
    stop = _Stop(screen, farewell)
    try:
        return asyncio.run(stop.guard(work))
    finally:
        stop.over()
