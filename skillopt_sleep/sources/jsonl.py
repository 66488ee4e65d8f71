"""A file of our own format, for every other program: one session a line (`sessions_file`)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from skillopt.core.intake import Json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import dig, list_at, text_at
from skillopt_sleep.sources.intake import Intake
from skillopt_sleep.values import SessionsRead

_KNOWN: Final = frozenset(
    ("id", "project", "started", "ended", "turns", "branch", "commit", "files", "headless")
)


class Jsonl:
    name = "jsonl"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        path = settings.sessions_file
        self._path = path.expanduser() if path else None

    def found(self) -> bool:
        return self._path is not None and self._path.is_file()

    def sessions(self, since: datetime | None) -> SessionsRead:
        intake = Intake(self.name, self._settings, since)
        if self._path is None:
            return intake.read()
        for number, row in enumerate(intake.rows(self._path), 1):
            if problem := _problem(row):
                intake.damaged(self._path, f"session {number}: {problem}")
                continue
            draft = SessionDraft(
                self._path,
                id=text_at(row, "id"),
                project=text_at(row, "project"),
                branch=text_at(row, "branch"),
                commit=text_at(row, "commit"),
                headless=row.get("headless") is True,
            )
            draft.seen(row.get("started"))
            draft.seen(row.get("ended"))
            for turn in list_at(row, "turns"):
                _turn(draft, turn)
            for path in list_at(row, "files"):
                draft.changes(path if isinstance(path, str) else "")
            intake.take(draft)
        return intake.read()


def _turn(draft: SessionDraft, turn: Json) -> None:
    draft.seen(dig(turn, "time"))
    draft.says(text_at(turn, "user"))
    for call in list_at(turn, "tools"):
        if isinstance(call, str):
            draft.calls(call)
        else:
            draft.calls(text_at(call, "name"), dig(call, "arguments"))
    draft.answer(text_at(turn, "agent"))


def _problem(row: dict[str, Json]) -> str:
    if unknown := sorted(row.keys() - _KNOWN):
        return f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_KNOWN))}"
    missing = [key for key in ("id", "project", "turns") if not row.get(key)]
    return f"{missing[0]!r} is missing" if missing else ""
