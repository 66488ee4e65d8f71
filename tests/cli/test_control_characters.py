from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from support_cli import Trained

from skillopt.cli.render import Screen
from skillopt.cli.tables import Table

CONTROLS = [each for each in (*range(0x20), *range(0x7F, 0xA0)) if chr(each) not in "\n\t"]
CODES = [*CONTROLS, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("colour", [{"FORCE_COLOR": "1"}, {}], ids=["colour", "plain"])
def test_a_skill_that_holds_terminal_codes_is_shown_and_does_not_drive_the_terminal(
    trained: Trained, colour: dict[str, str]
) -> None:
    evil = trained.folder / f"evil{len(colour)}.md"
    content = "- Be kind.\x1b]0;pwn\x07\x1b[2J \x9b2J \u202egnp.exe \x7f\tend\n"
    evil.write_text(content, encoding="utf-8")
    # Older versions of rich take even a blank FORCE_COLOR for a wish.
    without = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", "skillopt", "diff", "run", "initial", evil.name],
        cwd=trained.folder,
        env={**without, "TERM": "xterm", **colour},
        capture_output=True,
        check=True,
    )
    said = done.stdout.decode()
    shown = next(line for line in said.splitlines() if "Be kind" in line)
    assert "\\x1b]0;pwn" in shown
    assert "\\x1b[2J \\u009b2J \\u202egnp.exe \\u007f" in shown
    assert not {"\x1b]", "\x1b[2J", "\x9b", "\u202e", "\x7f"} & {
        said[at : at + size] for at in range(len(said)) for size in (1, 2, 4)
    }
    assert ("\x1b[32m" in said) == bool(colour)
    assert evil.read_text(encoding="utf-8") == content


@pytest.mark.parametrize("code", CODES)
def test_no_control_character_of_content_is_written(
    code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"a{chr(code)}b"
    table = Table("name")
    table.add_row(text)
    screen = Screen()
    screen.show(text, table)
    screen.complain(text)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert screen.confirm(text)
    said = capsys.readouterr()
    assert chr(code) not in said.out + said.err


def test_a_json_document_says_the_same_when_it_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = {"text": "".join(map(chr, CODES))}
    Screen().show(json.dumps(document, ensure_ascii=False, indent=2))
    assert json.loads(capsys.readouterr().out) == document
