"""Runs inside of a sandbox: makes a home, opens the door to the model, and starts a program.

It is given as text to a Python interpreter that has nothing of ours, so it uses the standard
library only. Programs speak TCP, and the only network that they have is loopback: what they send
there is passed on to a unix socket.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

DOOR = "@DOOR@"
"""Stands for the address of the model wherever a program is told it."""
HOME = "@HOME@"
"""The same for its home."""
WORK = "@WORK@"
"""The same for the folder in which it works."""


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def connect(program: socket.socket, model: str, secret: bytes) -> None:
    """Pass a connection on if its first request names the secret, which only the program knows.

    With network, the port is that of the machine, and everybody on it could use it.
    """
    first = b""
    outside = socket.socket(socket.AF_UNIX)
    try:
        while b"\n" not in first and len(first) < 65536 and (data := program.recv(65536)):
            first += data
        if b" /" + secret + b"/" not in first.partition(b"\n")[0]:
            program.close()
            return
        outside.connect(model)
        outside.sendall(first)
    except OSError:
        program.close()
        return
    for pair in ((program, outside), (outside, program)):
        threading.Thread(target=copy, args=pair, daemon=True).start()


def serve(listener: socket.socket, model: str, secret: str) -> None:
    while True:
        program, _ = listener.accept()
        given = (program, model, secret.encode())
        threading.Thread(target=connect, args=given, daemon=True).start()


def main(plan: dict[str, Any]) -> int:
    url = ""
    if plan["model"]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        secret = secrets.token_hex(16)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/{secret}"
        given = (listener, plan["model"], secret)
        threading.Thread(target=serve, args=given, daemon=True).start()
    place = Path(os.environ["TMPDIR"])  # noqa: TID251 - the environment is of our making
    # Beside each other: codex refuses a home below the folder for temporary files.
    home, temporary, printed = place / "home", place / "temporary", place / "printed"
    home.mkdir(mode=0o700)
    temporary.mkdir(mode=0o700)

    def told(text: str) -> str:
        return text.replace(DOOR, url).replace(HOME, str(home)).replace(WORK, str(Path.cwd()))

    for name, text in plan["home"].items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told(text), encoding="utf-8")
    command = [told(word) for word in plan["command"]]
    variables = {name: told(value) for name, value in plan["variables"].items()}
    variables = {"HOME": str(home), "TMPDIR": str(temporary), **variables}
    # Not a pipe: what some programs write at their very end never gets through one.
    with printed.open("wb") as output, printed.open("rb") as written:
        program = subprocess.Popen(  # noqa: S603 - what it runs is the user's choice
            command, env=variables, stdin=subprocess.DEVNULL, stdout=output
        )
        code = None
        while code is None:
            with suppress(subprocess.TimeoutExpired):
                code = program.wait(0.05)
            while data := written.read(65536):
                sys.stdout.buffer.write(data)
            sys.stdout.flush()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    given = Path(sys.argv[1])
    text = given.read_text("utf-8")
    given.unlink()
    sys.exit(main(json.loads(text)))
