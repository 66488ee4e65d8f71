"""Copilot CLI: `session-state/<id>/events.jsonl` and the database `session-store.db`."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Final

from skillopt.core.intake import Json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import VARIABLES, dig, home_folder, list_at, text_at
from skillopt_sleep.sources.intake import Intake, columns, files_below, opened_database, read_all
from skillopt_sleep.values import SessionsRead

_NOBODY: Final = "non-interactive mode"
"""What the instructions of the program say when it was started with a prompt."""


class CopilotCli:
    name = "copilot_cli"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = home_folder(settings.copilot_home, VARIABLES["copilot_home"], ".copilot")
        store = settings.copilot_cli_session_store or self._folder / "session-store.db"
        self._store = store.expanduser()

    def found(self) -> bool:
        return self._store.is_file() or (self._folder / "session-state").is_dir()

    def sessions(self, since: datetime | None) -> SessionsRead:
        intake = Intake(self.name, self._settings, since)
        # The events tell more, so they come first and win over what the database repeats.
        events = files_below(self._folder, "session-state/*/events.jsonl", "session-state/*.jsonl")
        told = {_id(path) for path in events}
        try:
            if self._store.is_file():
                with opened_database(self._store) as connection:
                    for draft in _stored(connection, self._store):
                        if draft.id not in told:
                            intake.take(draft)
        except (sqlite3.Error, OSError) as error:
            intake.damaged(self._store, f"cannot be read: {error}")
        return read_all(intake, events, _read)


def _id(path: Path) -> str:
    return path.parent.name if path.name == "events.jsonl" else path.stem


def _read(path: Path, intake: Intake) -> SessionDraft:
    draft = SessionDraft(path, id=_id(path))
    for row in intake.rows(path):
        kind, data = text_at(row, "type"), row.get("data")
        if text_at(data, "parentToolCallId") or text_at(row, "agentId"):
            draft.left_out["side chain record"] += 1
            continue
        draft.seen(row.get("timestamp"))
        if kind in ("session.start", "session.resume"):
            draft.id = text_at(data, "sessionId") or draft.id
            draft.project = draft.project or text_at(data, "context", "cwd")
            draft.branch = draft.branch or text_at(data, "context", "branch")
            draft.commit = draft.commit or text_at(data, "context", "headCommit")
        elif kind in ("session.error", "abort"):
            draft.troubles += 1
        elif kind.startswith(("tool.", "skill.")):
            _tool(draft, kind, data)
        else:
            _message(draft, kind, data)
    return draft


def _message(draft: SessionDraft, kind: str, data: Json) -> None:
    text = text_at(data, "content")
    if kind == "system.message":
        draft.headless = _NOBODY in text
    elif kind == "assistant.message":
        draft.answer(text)
    elif kind == "user.message" and text_at(data, "source") in ("", "user"):
        draft.says(text)
    elif kind == "user.message":
        draft.left_out["injected text"] += 1


def _tool(draft: SessionDraft, kind: str, data: Json) -> None:
    if kind == "tool.execution_start":
        draft.calls(text_at(data, "toolName"), dig(data, "arguments"))
    elif kind == "tool.execution_complete":
        for edit in list_at(data, "fileEdits"):
            draft.changes(text_at(edit, "path"))
    elif kind == "skill.invoked":
        draft.uses(text_at(data, "name"))


def _stored(connection: sqlite3.Connection, path: Path) -> list[SessionDraft]:
    drafts = {
        str(row["id"]): SessionDraft(
            path,
            id=str(row["id"]),
            project=str(row["cwd"] or ""),
            branch=str(row["branch"] or ""),
        )
        for row in connection.execute("SELECT id, cwd, branch FROM sessions ORDER BY id")
    }
    for row in connection.execute("SELECT id, created_at, updated_at FROM sessions"):
        for name in ("created_at", "updated_at"):
            drafts[str(row["id"])].seen(row[name])
    timed = "timestamp" in columns(connection, "turns")
    for row in connection.execute("SELECT * FROM turns ORDER BY session_id, turn_index"):
        if draft := drafts.get(str(row["session_id"])):
            draft.says(str(row["user_message"] or ""))
            draft.answer(str(row["assistant_response"] or ""))
            if timed:
                draft.seen(row["timestamp"])
    if columns(connection, "session_files"):
        for row in connection.execute("SELECT * FROM session_files"):
            if draft := drafts.get(str(row["session_id"])):
                draft.calls(str(row["tool_name"] or ""), {"path": str(row["file_path"] or "")})
    return list(drafts.values())
