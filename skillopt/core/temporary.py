"""Temporary folders that are gone in the end, even if this process is killed."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Final

_SHELL: Final = "/bin/sh"
_SWEEP: Final = """
read -r _
tries=0
while [ $tries -lt 100 ]; do
  chmod -R u+rwx "$1"/skillopt-*-"$2"-*
  rm -rf "$1"/skillopt-*-"$2"-*
  sleep 0.2
  ls -d "$1"/skillopt-*-"$2"-* || exit 0
  tries=$((tries + 1))
done >/dev/null 2>&1
"""
"""Waits until the other end of standard input is gone, and so are we; others may still write."""


@dataclass(slots=True)
class _Sweeper:
    """A process that removes what we leave, for as long as there may be something."""

    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    word: str = ""
    pid: int = 0
    lifeline: int = -1

    def enter(self) -> str:
        with self.lock:
            if self.users == 0:
                self._start()
            self.users += 1
            return self.word

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.pid:
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
                os.close(self.lifeline)
                self.pid = 0

    def _start(self) -> None:
        self.word = secrets.token_hex(8)
        if not Path(_SHELL).exists():
            return
        reading_end, self.lifeline = os.pipe()
        try:
            self.pid = os.posix_spawn(
                _SHELL,
                ["sh", "-c", _SWEEP, "sh", gettempdir(), self.word],
                {"PATH": "/usr/bin:/bin"},
                file_actions=[(os.POSIX_SPAWN_DUP2, reading_end, 0)],
                setsid=True,  # Ctrl-C is not for it
            )
        finally:
            os.close(reading_end)


_SWEEPER: Final = _Sweeper()


@contextmanager
def swept(kind: str) -> Generator[str, None, None]:
    """The beginning of names for folders in the usual place for temporary ones.

    Whoever makes them removes them; if we are killed before, they are removed nevertheless.
    """
    word = _SWEEPER.enter()
    try:
        yield f"skillopt-{kind}-{word}-"
    finally:
        _SWEEPER.leave()
