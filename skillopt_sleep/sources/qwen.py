"""Qwen Code: `projects/<folder>/chats/<session>.jsonl` in ~/.qwen."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import dig, home_folder, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead


class Qwen:
    name = "qwen"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = home_folder(settings.qwen_home, "", ".qwen")

    def found(self) -> bool:
        return bool(self._files())

    def sessions(self, since: datetime | None) -> SessionsRead:
        return read_all(Intake(self.name, self._settings, since), self._files(), _read)

    def _files(self) -> list[Path]:
        return files_below(self._folder, "projects/*/chats/*.jsonl", "tmp/*/chats/*.jsonl")


def _read(path: Path, intake: Intake) -> SessionDraft:
    draft = SessionDraft(path, id=path.stem)
    for row in intake.rows(path):
        kind, subtype = row.get("type"), text_at(row, "subtype")
        if row.get("isSidechain") is True:
            draft.left_out["side chain record"] += 1
            continue
        draft.id = text_at(row, "sessionId") or draft.id
        draft.project = draft.project or text_at(row, "cwd")
        draft.branch = draft.branch or text_at(row, "gitBranch")
        parts = dig(row, "message", "parts")
        if kind == "user":
            draft.seen(row.get("timestamp"))
            if subtype:
                draft.left_out["meta record"] += 1
            else:
                draft.says(texts_in(parts))
        elif kind == "assistant":
            draft.seen(row.get("timestamp"))
            thought = [part for part in list_at(parts) if dig(part, "thought") is not True]
            draft.answer(texts_in(thought))
            for part in thought:
                draft.calls(
                    text_at(part, "functionCall", "name"), dig(part, "functionCall", "args")
                )
        elif kind == "system":
            if subtype == "chat_compression":
                draft.left_out["summary"] += 1
            if text_at(row, "systemPayload", "uiEvent", "event.name") == "qwen-code.api_error":
                draft.troubles += 1
    return draft
