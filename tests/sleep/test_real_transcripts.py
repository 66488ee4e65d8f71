"""Session files that the real programs wrote."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest
from support_transcripts import settings_in

from skillopt_sleep.harvest import SOURCES
from skillopt_sleep.values import Session, SessionsRead

FOLDER = Path(__file__).parents[3] / "shared" / "agents" / "transcripts"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="there are no transcripts beside the repository (../shared)"
)
PLACES = {
    "claude_code.jsonl": ("claude", "projects/-ws/673919d0.jsonl"),
    "claude_code_2.jsonl": ("claude", "projects/-ws/6e64252b.jsonl"),
    "codex_rollout.jsonl": ("codex", "sessions/2026/11/16/rollout-1.jsonl"),
    "copilot_cli_events.jsonl": ("copilot_cli", "session-state/b772ce54/events.jsonl"),
    "gemini_chat.jsonl": ("gemini", "tmp/ws/chats/session-1.jsonl"),
    "qwen_chat.jsonl": ("qwen", "projects/-ws/chats/1.jsonl"),
}


def read(file: str, folder: Path, *, headless: bool = True) -> SessionsRead:
    name, place = PLACES[file]
    path = folder / name / place
    path.parent.mkdir(parents=True)
    shutil.copyfile(FOLDER / file, path)
    settings = settings_in(folder, headless=headless)
    return SOURCES.load(name)(settings).sessions(None)


def only(found: SessionsRead) -> Session:
    (session,) = found.sessions
    return session


def test_a_session_of_claude(tmp_path: Path) -> None:
    session = only(read("claude_code.jsonl", tmp_path))
    assert session.id == "673919d0-2240-4bbc-a092-c56a5406a75b"
    assert session.prompts == ("[[write:/work-area/claude/ws/out.txt|hello]]",)
    assert session.answers == ("DONE",)
    assert (session.tools, session.files) == (("Write",), ("out.txt",))
    assert (session.project, session.branch) == (Path("/work-area/claude/ws"), "master")
    assert session.started == datetime(2026, 11, 16, 6, 45, 16, 361000, timezone.utc)
    assert session.ended == datetime(2026, 11, 16, 6, 45, 16, 520000, timezone.utc)
    assert session.reactions == ()


def test_a_session_of_claude_that_only_answered(tmp_path: Path) -> None:
    session = only(read("claude_code_2.jsonl", tmp_path))
    assert (session.prompts, session.tools) == (("[[say:hello from stub]] greet",), ())
    assert session.answers == ("hello from stub",)


def test_a_session_of_codex(tmp_path: Path) -> None:
    found = read("codex_rollout.jsonl", tmp_path)
    session = only(found)
    assert session.id == "01a1e348-06a5-7373-b374-7286f8ef4dc3"
    (prompt,) = session.prompts
    assert prompt.startswith("Write a file. [[write:notes.txt|hello]]")
    assert session.answers == ("DONE",)
    assert session.tools == ("exec_command",)
    assert session.commands == ('printf %s "hello" > notes.txt',)
    assert session.reactions == ()  # the correction stands in the task itself
    assert session.ended == datetime(2026, 11, 16, 7, 35, 11, 204000, timezone.utc)


def test_a_session_of_copilot(tmp_path: Path) -> None:
    session = only(read("copilot_cli_events.jsonl", tmp_path))
    assert session.prompts == ("[[write:/work-area/copilot/ws/out.txt|hello]]",)
    assert (session.tools, session.files) == (("create",), ("out.txt",))
    assert (session.answers, session.branch) == (("DONE",), "master")


def test_a_session_of_gemini(tmp_path: Path) -> None:
    root = tmp_path / "gemini" / "tmp" / "ws" / ".project_root"
    root.parent.mkdir(parents=True)
    root.write_text("/w/app", encoding="utf-8")
    session = only(read("gemini_chat.jsonl", tmp_path))
    assert session.prompts == ("[[say:hello from stub]] greet",)
    assert session.answers == ("hello from stub",)


def test_a_session_of_qwen_that_failed(tmp_path: Path) -> None:
    session = only(read("qwen_chat.jsonl", tmp_path))
    assert session.prompts == ("[[say:hello from stub]] greet",)
    assert (session.answers, session.troubles) == (("",), 1)


@pytest.mark.parametrize("file", [file for file in PLACES if not file.startswith("gemini")])
def test_sessions_of_scripts_are_headless(file: str, tmp_path: Path) -> None:
    found = read(file, tmp_path, headless=False)
    assert found.sessions == ()
    assert found.skipped["headless"] == 1
