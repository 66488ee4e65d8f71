"""Small real programs that behave like the ones people are logged in to."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

_SCRIPT = """\
#!{python} -I
import json, os, sys, time
call = {{
    "arguments": sys.argv[1:],
    "stdin": sys.stdin.read(),
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
    "files": os.listdir("."),
    "instructions": "",
}}
if "--system-prompt-file" in sys.argv:
    with open(sys.argv[sys.argv.index("--system-prompt-file") + 1], encoding="utf-8") as file:
        call["instructions"] = file.read()
with open({record!r}, "a", encoding="utf-8") as file:
    file.write(json.dumps(call) + "\\n")
{behaviour}
"""


@dataclass(frozen=True)
class Program:
    """A program on disk that writes down how it was called."""

    path: Path
    record: Path

    @property
    def calls(self) -> list[dict[str, Any]]:
        lines = self.record.read_text("utf-8").splitlines() if self.record.exists() else []
        return [cast("dict[str, Any]", json.loads(line)) for line in lines]


def make_program(folder: Path, name: str, behaviour: str) -> Program:
    """A program whose last act is `behaviour`, in Python; it may look at `call`."""
    folder.mkdir(parents=True, exist_ok=True)
    path, record = folder / name, folder / f"{name}.calls.jsonl"
    text = _SCRIPT.format(python=sys.executable, record=str(record), behaviour=behaviour)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Program(path, record)


def prints(*events: object) -> str:
    """Behaviour: these JSON values, one per line."""
    return "\n".join(f"print({json.dumps(json.dumps(event))})" for event in events)


def fails(words: str, code: int = 1) -> str:
    """Behaviour: complain and leave."""
    return f"print({words!r}, file=sys.stderr)\nsys.exit({code})"
