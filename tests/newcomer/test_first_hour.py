"""The first hour of a newcomer, who follows the documentation to the letter."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from support_cli import Done, skillopt
from support_gguf import write_model

ROOT = Path(__file__).parents[2]
COLUMNS = 80
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_REDRAWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Amend: TypeAlias = Callable[[str], str]


def section(page: str, heading: str) -> dict[str, str]:
    """The code of a section by its language."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    return dict(_BLOCK.findall(text.partition("\n## ")[0]))


def commands(block: str) -> list[list[str]]:
    """The `skillopt` commands of a shell block, without comments."""
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [line[1:] for line in lines if line[:1] == ["skillopt"]]


def on_a_terminal(*args: str, cwd: Path) -> Done:
    """Everything that the real program writes on a real terminal of 80 columns."""
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    unwanted = ("OPENAI", "SKILLOPT", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    env = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    with subprocess.Popen(
        [sys.executable, "-m", "skillopt", *args],
        cwd=cwd,
        env={**env, "TERM": "xterm"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
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
    os.close(outside)
    return Done(process.returncode, _COLOURS.sub("", said.decode()), "")


def lines_of(done: Done) -> list[str]:
    """What was on the screen at the end of each line, after all that was drawn over."""
    lines = done.out.replace("\r\n", "\n").split("\n")
    return [_REDRAWN.split(line.rsplit("\r", 1)[-1])[-1] for line in lines]


def acceptable(done: Done, code: int = 0) -> str:
    """The text, after what goes for every output."""
    assert done.code == code, done.out
    assert "Traceback" not in done.out
    assert "this is a bug" not in done.out.lower()
    lines = lines_of(done)
    wide = [line for line in lines if len(line) > COLUMNS and "skillopt " not in line]
    assert wide == []
    assert [line for line in lines if "…" in line] == []
    return "\n".join(lines)


def write_tickets(folder: Path) -> None:
    """60 rows of one's own with one rule of format: the number with two digits and a P."""
    places = ("Rome", "Oslo", "Lima", "Kyiv", "Bonn")
    rows = [f"{n} parcels go to {places[n % 5]}. How many?,P{n:02d}\n" for n in range(10, 70)]
    (folder / "tickets.csv").write_text("input,answer\n" + "".join(rows), encoding="utf-8")


def follow(folder: Path, amend: Amend, *, skip: tuple[str, ...] = ()) -> dict[str, str]:
    """The page's commands, one after the other; what each of them said."""
    told = section("docs/quickstart.md", "Your own CSV with the local model")
    write_tickets(folder)
    (folder / "my.yaml").write_text(amend(told["yaml"]), encoding="utf-8")
    said: dict[str, str] = {}
    run = "RUN"
    for command in commands(told["sh"]):
        if command[0] in skip:
            continue
        done = on_a_terminal(*(word.replace("RUN", run) for word in command), cwd=folder)
        said[command[0]] = acceptable(done)
        if command[0] == "train":
            run = re.findall(r"run directory (\S+)", done.out)[0]
    return said


def read_through(said: dict[str, str]) -> None:
    """What a newcomer looks for in each output."""
    assert list(said) == ["check", "estimate", "train", "show", "diff", "eval"]
    assert "next: skillopt estimate my.yaml" in said["check"]
    assert "next: skillopt train my.yaml" in said["estimate"]
    assert "small local model: using " in said["train"]
    assert "20 train, 20 val, 20 test items" in said["train"]
    for command in ("show", "diff", "blame", "check"):
        assert f"skillopt {command} outputs/" in said["train"]
    assert "finished" in said["show"]
    assert "initial" in said["diff"]
    assert "95 % interval" in said["eval"]


def test_the_simulated_quickstart_of_the_readme_reads_well_on_a_terminal(tmp_path: Path) -> None:
    text = acceptable(on_a_terminal("quickstart", "--sim", "--yes", cwd=tmp_path))
    for part in ("SIMULATED models", "what was learnt (simulated)", "result (simulated)", "next"):
        assert part in text
    shown = [line.split()[1:] for line in text.splitlines() if line.startswith("  skillopt show ")]
    assert "finished" in acceptable(on_a_terminal(*shown[0], cwd=tmp_path))


def test_ones_own_csv_goes_the_way_that_the_documentation_shows(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    write_model(tmp_path / "tiny.gguf")
    small = "backend: local\n  target: tiny.gguf\n  max_tokens: 12\n  local_context: 2048\n"
    read_through(
        follow(tmp_path, lambda text: text.replace("backend: local\n", small), skip=("model",))
    )


@pytest.mark.weights
def test_the_same_way_works_with_the_real_model_and_nothing_but_the_backend_set(
    tmp_path: Path,
) -> None:
    read_through(follow(tmp_path, lambda text: text, skip=("model",)))


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("check mi.yaml", "did you mean 'my.yaml'?"),
        ("estimate my.yaml train.num_epoch=2", "num_epochs"),
        ("train my.yaml env.data_path=tikets.csv", "tickets.csv"),
        ("train my.yaml env.skill_init=blnk", "blank"),
        ("show outputs/tikets", "skillopt runs"),
        ("diff outputs/tikets", "skillopt runs"),
        ("eval my.yaml --skill best_skil.md", "best_skil.md"),
        ("trian my.yaml", "train"),
    ],
)
async def test_a_typo_is_answered_with_what_was_probably_meant(
    command: str, hint: str, tmp_path: Path
) -> None:
    write_tickets(tmp_path)
    text = section("docs/quickstart.md", "Your own CSV with the local model")["yaml"]
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")
    done = await skillopt(*command.split(), cwd=tmp_path)
    assert done.code in {1, 2}
    assert hint in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "outputs").exists()


def _script(folder: Path, head: str, *, within: bool) -> Done:
    """The first example of docs/python.md as a file of one's own."""
    code = _BLOCK.findall((ROOT / "docs/python.md").read_text(encoding="utf-8"))[0][1]
    if within:
        body = textwrap.indent(code.replace("import skillopt\n", ""), "    ")
        code = f"{head}\n\nasync def main():\n{body}\n\nasyncio.run(main())\n"
    (folder / "first.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "first.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("within", [False, True], ids=["script", "running event loop"])
def test_the_first_example_from_python_runs_as_a_script_and_inside_an_event_loop(
    tmp_path: Path, *, within: bool
) -> None:
    done = _script(tmp_path, "import asyncio\nimport skillopt", within=within)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert "- Add both numbers." in done.out
    assert "run directory outputs/fruit" in done.err
    assert (tmp_path / "outputs" / "fruit" / "best_skill.md").is_file()
    again = asyncio.run(skillopt("show", "outputs/fruit", cwd=tmp_path))
    assert again.code == 0
    assert "finished" in again.out
