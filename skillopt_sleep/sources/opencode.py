"""OpenCode: the database `opencode.db` in its data folder."""

from __future__ import annotations

import re
import sqlite3
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from skillopt.config.secrets import with_variables
from skillopt.core.intake import Json, read_json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import dig, list_at, text_at
from skillopt_sleep.sources.intake import Intake, columns, opened_database
from skillopt_sleep.values import SessionsRead

_OWN_AGENT: Final = re.compile(r"skillopt-sleep-[0-9a-f]{32}")
_QUOTED: Final = re.compile(r'"(.*)"', re.DOTALL)


class OpenCode:
    name = "opencode"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = (settings.opencode_db or _usual()).expanduser()

    def found(self) -> bool:
        return self._path.is_file()

    def sessions(self, since: datetime | None) -> SessionsRead:
        intake = Intake(self.name, self._settings, since)
        try:
            with opened_database(self._path) as connection:
                self._read(connection, intake)
        except (sqlite3.Error, OSError) as error:
            intake.damaged(self._path, f"cannot be read: {error}")
        return intake.read()

    def _read(self, connection: sqlite3.Connection, intake: Intake) -> None:
        drafts = _sessions(connection, self._path, intake)
        roles: dict[str, tuple[str, str]] = {}
        for row in connection.execute("SELECT * FROM message ORDER BY time_created, id"):
            session, data = str(row["session_id"]), _data(row["data"])
            if draft := drafts.get(session):
                roles[str(row["id"])] = (session, text_at(data, "role"))
                draft.seen(row["time_created"])
                draft.seen(dig(data, "time", "completed"))
                if dig(data, "error"):
                    draft.troubles += 1
                if dig(data, "summary") is True:
                    draft.left_out["summary"] += 1
                    roles[str(row["id"])] = (session, "")
        parts = "SELECT part.* FROM part JOIN message ON message.id = part.message_id "
        for row in connection.execute(f"{parts}ORDER BY message.time_created, message.id, part.id"):
            session, role = roles.get(str(row["message_id"]), ("", ""))
            if draft := drafts.get(session):
                _part(draft, role, _data(row["data"]))
        for draft in drafts.values():
            intake.take(draft)


def _usual() -> Path:
    """Where the program keeps its database, unless its own variable says so."""
    roots = ["$XDG_DATA_HOME"]
    if sys.platform == "win32":
        roots += ["$LOCALAPPDATA", "$APPDATA"]
    known = [Path(said) for root in roots if not (said := with_variables(root)).startswith("$")]
    folder = (known or [Path.home() / ".local" / "share"])[0] / "opencode"
    named = with_variables("$OPENCODE_DB")
    return folder / ("opencode.db" if named.startswith("$") else named)


def _sessions(
    connection: sqlite3.Connection, path: Path, intake: Intake
) -> dict[str, SessionDraft]:
    known = columns(connection, "session")
    drafts: dict[str, SessionDraft] = {}
    for row in connection.execute("SELECT * FROM session ORDER BY time_created, id"):
        if row["parent_id"]:
            intake.count("side chain")
            continue
        draft = SessionDraft(path, id=str(row["id"]), project=str(row["directory"] or ""))
        draft.seen(row["time_created"])
        if "agent" in known:
            draft.own = _OWN_AGENT.fullmatch(str(row["agent"] or "")) is not None
        if "metadata" in known:
            draft.branch = text_at(_data(row["metadata"]), "gitBranch")
        if "permission" in known:
            # `opencode run` has nobody to ask, and so may not ask questions.
            rules = list_at(_data(row["permission"]))
            draft.headless = any(
                (dig(rule, "permission"), dig(rule, "action")) == ("question", "deny")
                for rule in rules
            )
        drafts[draft.id] = draft
    return drafts


def _part(draft: SessionDraft, role: str, part: Json) -> None:
    kind = text_at(part, "type")
    if kind == "text":
        text = text_at(part, "text")
        if dig(part, "synthetic") is True or dig(part, "ignored") is True:
            draft.left_out["injected text"] += 1
        elif role == "user":
            # `opencode run` puts a prompt of several words into quotes.
            quoted = _QUOTED.fullmatch(text.strip())
            draft.says(quoted[1].replace('\\"', '"') if quoted else text)
        elif role == "assistant":
            draft.answer(text)
    elif kind == "tool":
        draft.calls(text_at(part, "tool"), dig(part, "state", "input"))
    elif kind == "patch":
        for changed in list_at(part, "files"):
            draft.changes(changed if isinstance(changed, str) else "")
    elif kind == "compaction":
        draft.left_out["summary"] += 1


def _data(text: object) -> Json:
    try:
        return read_json(text) if isinstance(text, str) else None
    except ValueError:
        return None
