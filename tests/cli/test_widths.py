from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Generator
from pathlib import Path

import pytest
from support_cli import Done, make_project, skillopt

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COMMANDS = {
    "train": ("train", "c.yaml"),
    "check": ("check", "c.yaml"),
    "check of a run": ("check", "run"),
    "estimate": ("estimate", "c.yaml", "model.input_price=1", "model.output_price=2"),
    "runs": ("runs", "run"),
    "quickstart --sim": ("quickstart", "--sim", "--out", "quickstart"),
    "show": ("show", "run"),
    "show --step": ("show", "run", "--step", "1"),
    "attribute": ("attribute", "measured", "--tasks", "2"),
    "blame": ("blame", "measured/best_skill.md"),
    "calibrate": ("calibrate", "c.yaml", "env.out_root=noise"),
    "doctor": ("doctor", "c.yaml", "--offline"),
    "eval": ("eval", "c.yaml", "env.out_root=e", "--skill", "run/best_skill.md"),
    "model list": ("model", "list"),
    "diff": ("diff", "run"),
}


_TABLES_FIRST = ("check", "estimate", "runs", "doctor", "eval", "model list", "blame")
"""Commands whose output begins with a table."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """A folder with a finished run, whose simulator still answers."""
    folder = tmp_path_factory.mktemp("a-project-whose-name-is-rather-long")
    command = [sys.executable, "-m", "skillopt.testing.simulator", "--watch-stdin"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip().rpartition(" ")[2]
        make_project(folder, url)
        for name in ("train", "attribute"):
            done = asyncio.run(skillopt(*_COMMANDS[name], cwd=folder))
            assert done.code == 0, done.err
            if name == "train":
                shutil.copytree(folder / "run", folder / "measured")
        yield folder
        process.stdin.close()


def on_a_terminal(*args: str, cwd: Path, columns: int) -> Done:
    """The real program on a real pseudo-terminal; standard error goes to a pipe."""
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    unwanted = ("OPENAI", "SKILLOPT", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    env = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    with subprocess.Popen(
        [sys.executable, "-m", "skillopt", *args],
        cwd=cwd,
        env={**env, "TERM": "xterm"},
        stdin=inside,
        stdout=inside,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(inside)
        said = bytearray()
        while True:
            try:
                piece = os.read(outside, 65536)
            except OSError:  # Linux says so when nobody is left on the other side
                break
            if not piece:
                break
            said += piece
        assert process.stderr is not None
        errors = process.stderr.read().decode()
    os.close(outside)
    text = _ESCAPES.sub("", said.decode()).replace("\r\n", "\n")
    return Done(process.returncode, text, errors)


def _changing(word: str) -> bool:
    """Durations, times and free space differ from one call to the next."""
    return bool(re.search(r"\d\d:\d\d|^\d+\.\d$|^\d+ms$", word))


@pytest.fixture(scope="module")
def wide(project: Path) -> dict[str, Done]:
    """What each command says where there is no screen to fit."""
    return {name: asyncio.run(skillopt(*words, cwd=project)) for name, words in _COMMANDS.items()}


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", _COMMANDS)
def test_nothing_that_a_command_says_is_cut_on_a_narrow_screen(
    name: str, columns: int, project: Path, wide: dict[str, Done]
) -> None:
    narrow = on_a_terminal(*_COMMANDS[name], cwd=project, columns=columns)
    whole = wide[name]
    assert narrow.code == whole.code, narrow.err
    assert "…" not in narrow.out
    said = narrow.out.split()
    unbroken = "".join(said)
    words = [word for word in whole.out.split() if not _changing(word)]
    assert [word for word in words if word not in said and word not in unbroken] == []
    # A number with its interval, and a verdict, stay on one line.
    for figure in re.findall(r"[-+]?\d\.\d{3} \[[^\]\n]+\]", whole.out):
        assert figure in narrow.out
    for verdict in ("left out", "not measured"):
        assert (verdict in narrow.out) == (verdict in whole.out)
    if name in _TABLES_FIRST:
        table = narrow.out.split("\n\n")[0].split("what to do")[0].splitlines()
        assert max(map(len, table)) <= columns
