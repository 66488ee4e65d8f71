"""Pi and OpenClaw, which keep sessions in the same form: a tree of entries, one a line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from skillopt.core.intake import Json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import VARIABLES, dig, home_folder, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead


class Pi:
    name = "pi"
    patterns = ("agent/sessions/*.jsonl", "agent/sessions/*/*.jsonl")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = self.folder(settings)

    def folder(self, settings: Settings) -> Path:
        return home_folder(settings.pi_home, "", ".pi")

    def found(self) -> bool:
        return bool(files_below(self._folder, *self.patterns))

    def sessions(self, since: datetime | None) -> SessionsRead:
        paths = files_below(self._folder, *self.patterns)
        return read_all(Intake(self.name, self._settings, since), paths, _read)


class OpenClaw(Pi):
    name = "openclaw"
    patterns = ("agents/*/sessions/*.jsonl",)

    def folder(self, settings: Settings) -> Path:
        return home_folder(settings.openclaw_home, VARIABLES["openclaw_home"], ".openclaw")


def _read(path: Path, intake: Intake) -> SessionDraft | None:
    rows = list(intake.rows(path))
    if not rows or rows[0].get("type") != "session":
        intake.damaged(path, "its first line is no session header")
        return None
    head = rows[0]
    draft = SessionDraft(path, id=text_at(head, "id") or path.stem, project=text_at(head, "cwd"))
    draft.side_chain = bool(text_at(head, "spawnedBy"))
    draft.seen(head.get("timestamp"))
    for row in _branch(rows[1:]):
        kind = row.get("type")
        if kind in ("compaction", "branch_summary"):
            draft.left_out["summary"] += 1
        elif kind == "custom_message":
            draft.left_out["injected text"] += 1
        elif kind == "message":
            draft.seen(row.get("timestamp") or dig(row, "message", "timestamp"))
            _message(draft, row.get("message"))
    return draft


def _branch(rows: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """The entries from the root to the last one; all of them where they form no tree."""
    by_id = {name: row for row in rows if (name := text_at(row, "id"))}
    if not any("parentId" in row for row in rows):
        return rows
    branch: list[dict[str, Json]] = []
    row: dict[str, Json] | None = rows[-1] if rows else None
    seen: set[str] = set()
    while row is not None:
        branch.append(row)
        name = text_at(row, "parentId")
        # A parent that is damaged or named twice ends the walk: what is known so far stays.
        row = by_id.get(name) if name not in seen else None
        seen.add(name)
    return branch[::-1]


def _message(draft: SessionDraft, message: Json) -> None:
    role, content = text_at(message, "role"), dig(message, "content")
    if role == "user":
        draft.says(texts_in(content, "text"))
    elif role == "assistant":
        draft.answer(texts_in(content, "text"))
        if text_at(message, "stopReason") in ("error", "aborted"):
            draft.troubles += 1
        for block in list_at(content):
            if dig(block, "type") == "toolCall":
                draft.calls(text_at(block, "name"), dig(block, "arguments"))
    elif role == "toolResult":
        draft.calls(text_at(message, "toolName"))
    elif role == "bashExecution":
        draft.commands.append(text_at(message, "command"))
