"""The plugins, as the real programs load them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support_agents import installed

from skillopt_sleep.installing import install, uninstall
from skillopt_sleep.plugins import MARKETPLACE

pytestmark = pytest.mark.agents


def said(program: str, home: Path, *arguments: str | Path) -> str:
    folder = home / "work"
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        [installed(program), *arguments],
        cwd=folder,
        env={**kept, "HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_claude_validates_the_marketplace_and_the_plugin(tmp_path: Path) -> None:
    for folder in (MARKETPLACE, MARKETPLACE / "skillopt-sleep"):
        assert "Validation passed" in said("claude", tmp_path, "plugin", "validate", folder)


def test_claude_loads_what_is_installed_and_connects_to_the_server(tmp_path: Path) -> None:
    install("claude", home=tmp_path, state=tmp_path / "state")
    told = said("claude", tmp_path, "plugin", "details", "skillopt-sleep")
    for part in ("nightly-learning", "skillopt-sleep-handoff", "SessionEnd", "MCP servers (1)"):
        assert part in told
    assert "Connected" in said("claude", tmp_path, "mcp", "list")
    uninstall("claude", home=tmp_path, state=tmp_path / "state")
    assert "skillopt" not in said("claude", tmp_path, "plugin", "list")


@pytest.mark.parametrize(
    ("program", "install_words"), [("claude", "install"), ("codex", "add"), ("copilot", "install")]
)
def test_one_folder_is_a_marketplace_of_three_programs(
    program: str, install_words: str, tmp_path: Path
) -> None:
    said(program, tmp_path, "plugin", "marketplace", "add", MARKETPLACE)
    said(program, tmp_path, "plugin", install_words, "skillopt-sleep@skillopt")
    assert "skillopt-sleep" in said(program, tmp_path, "plugin", "list")


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        ("codex", ("mcp", "list"), "/skillopt-sleep  mcp "),
        ("copilot", ("mcp", "list"), "skillopt-sleep"),
        ("copilot", ("skill", "list"), "nightly-learning"),
        ("gemini", ("extensions", "list"), "nightly-learning"),
        ("opencode", ("mcp", "list"), "connected"),
        ("qwen", ("extensions", "list"), "nightly-learning"),
        ("qwen", ("mcp", "list"), "Connected"),
    ],
)
def test_a_program_lists_what_is_installed(
    program: str, arguments: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    installed(program)
    install(program, home=tmp_path, state=tmp_path / "state")
    assert expected in said(program, tmp_path, *arguments)
    uninstall(program, home=tmp_path, state=tmp_path / "state")
    assert expected not in said(program, tmp_path, *arguments)


def test_gemini_validates_its_extension(tmp_path: Path) -> None:
    install("gemini", home=tmp_path, state=tmp_path / "state")
    folder = tmp_path / ".gemini" / "extensions" / "skillopt-sleep"
    assert "successfully validated" in said("gemini", tmp_path, "extensions", "validate", folder)
