"""A public address for the dashboard, through a tunnel program that the user has installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread
from typing import IO, Final

from skillopt.errors import ConfigError

_ADDRESS: Final = re.compile(r"https://[a-z0-9.-]+\.[a-z]{2,}(?=[\s\"'/|,]|$)", re.IGNORECASE)
_DOCUMENTS: Final = ("www.", "developers.", "docs.", "dashboard.", "admin.", "api.")
"""Addresses that these programs mention besides the tunnel's."""
_SECONDS: Final = 30.0

PROGRAMS: Final = {
    "cloudflared": ["tunnel", "--no-autoupdate", "--url", "http://127.0.0.1:{port}"],
    "ngrok": ["http", "{port}", "--log", "stdout", "--log-format", "logfmt"],
    "ssh": [
        *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new"),
        *("-o", "ExitOnForwardFailure=yes", "-R", "80:127.0.0.1:{port}", "nokey@localhost.run"),
    ],
}
"""Tried in this order; each prints the address that it was given."""


def tunnel_program() -> str:
    """The first tunnel program that is installed.

    Raises:
        ConfigError: There is none; says which ones would do.
    """
    for name in PROGRAMS:
        if shutil.which(name):
            return name
    raise ConfigError(
        "--share needs a tunnel program, and none is installed. Install cloudflared or ngrok, or "
        "an ssh client; or forward the port yourself: ssh -L 7860:127.0.0.1:7860 THIS-MACHINE"
    )


@contextmanager
def tunnel(port: int) -> Generator[str, None, None]:
    """The public address of a port on loopback, while the block runs."""
    name = tunnel_program()
    words = [word.replace("{port}", str(port)) for word in PROGRAMS[name]]
    with subprocess.Popen(  # noqa: S603 - a program of the user's own choice, no shell
        [shutil.which(name) or name, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        found: list[str] = []
        said: list[str] = []
        reading = Thread(target=_read, args=(process.stdout, found, said), daemon=True)
        reading.start()
        try:
            reading.join(0)
            _await(reading, found)
            if not found:
                last = said[-1] if said else "it said nothing"
                raise ConfigError(
                    f"{name} gave no address within {_SECONDS:.0f} s: {last}. The dashboard was "
                    "not started; without --share it works on this machine."
                )
            yield found[0]
        finally:
            process.terminate()


def _await(reading: Thread, found: list[str]) -> None:
    waited = 0.0
    while not found and reading.is_alive() and waited < _SECONDS:
        reading.join(0.1)
        waited += 0.1


def _read(output: IO[str] | None, found: list[str], said: list[str]) -> None:
    """To the end, so that the program never waits for somebody to listen."""
    for line in output or ():
        if line.strip():
            said[:] = [line.strip()]
        for address in _ADDRESS.findall(line):
            host = address.removeprefix("https://")
            if not found and not host.startswith(_DOCUMENTS) and host.count(".") >= 2:
                found.append(address)
