"""Runs inside of a sandbox: makes a home, opens the door to the model, and starts a program.

It is given as text to a Python interpreter that has nothing of ours, so it uses the standard
library only. Programs speak TCP, and the only network that they have is loopback: what they send
there is passed on to a unix socket.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

DOOR = "@DOOR@"
"""Stands for the address of the model wherever a program is told it."""


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def serve(listener: socket.socket, model: str) -> None:
    while True:
        program, _ = listener.accept()
        outside = socket.socket(socket.AF_UNIX)
        try:
            outside.connect(model)
        except OSError:
            program.close()
            continue
        for pair in ((program, outside), (outside, program)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def main(plan: dict[str, Any]) -> int:
    url = ""
    if plan["model"]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=serve, args=(listener, plan["model"]), daemon=True).start()
    for folder in plan["folders"]:
        Path(folder).mkdir(mode=0o700, parents=True)
    for name, text in plan["files"].items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(DOOR, url), encoding="utf-8")
    command = [word.replace(DOOR, url) for word in plan["command"]]
    variables = {name: value.replace(DOOR, url) for name, value in plan["variables"].items()}
    # Not a pipe: what some programs write at their very end never gets through one.
    with open(plan["output"], "wb") as output, open(plan["output"], "rb") as written:  # noqa: PTH123
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
