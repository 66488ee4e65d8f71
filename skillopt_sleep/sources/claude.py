"""Claude Code: `projects/<folder>/<session>.jsonl` in ~/.claude."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from skillopt.core.intake import Json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import VARIABLES, dig, home_folder, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead

_SIDE: Final = "agent-"
"""How transcripts of subagents begin."""


class Claude:
    name = "claude"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = (
            home_folder(settings.claude_home, VARIABLES["claude_home"], ".claude") / "projects"
        )

    def found(self) -> bool:
        return self._folder.is_dir()

    def sessions(self, since: datetime | None) -> SessionsRead:
        intake = Intake(self.name, self._settings, since)
        paths = files_below(self._folder, "*/*.jsonl")
        main = [path for path in paths if not path.name.startswith(_SIDE)]
        side = len(paths) - len(main) + len(files_below(self._folder, "*/*/subagents/*.jsonl"))
        intake.count("side chain", side)
        return read_all(intake, main, _read)


def _read(path: Path, intake: Intake) -> SessionDraft:
    draft = SessionDraft(path, id=path.stem)
    for row in intake.rows(path):
        kind = row.get("type")
        if row.get("isSidechain") is True:
            draft.left_out["side chain record"] += 1
            continue
        draft.id = text_at(row, "sessionId") or draft.id
        draft.project = draft.project or text_at(row, "cwd")
        draft.branch = draft.branch or text_at(row, "gitBranch")
        entrypoint = text_at(row, "entrypoint")
        if entrypoint:
            draft.headless = entrypoint.startswith("sdk")
        if kind == "user":
            _user(draft, row)
        elif kind == "assistant":
            draft.seen(row.get("timestamp"))
            _assistant(draft, list_at(row, "message", "content"))
            if row.get("isApiErrorMessage") is True:
                draft.troubles += 1
            else:
                draft.answer(texts_in(dig(row, "message", "content"), "text"))
        elif kind == "attachment":
            _attached(draft, row)
        elif kind == "file-history-snapshot":
            tracked = dig(row, "snapshot", "trackedFileBackups")
            for changed in tracked if isinstance(tracked, dict) else ():
                draft.changes(changed)
    return draft


def _user(draft: SessionDraft, row: dict[str, Json]) -> None:
    draft.seen(row.get("timestamp"))
    if row.get("isCompactSummary") is True:
        draft.left_out["summary"] += 1
    elif row.get("isMeta") is True or row.get("isVisibleInTranscriptOnly") is True:
        draft.left_out["meta record"] += 1
    else:
        draft.says(texts_in(dig(row, "message", "content"), "text"))


def _attached(draft: SessionDraft, row: dict[str, Json]) -> None:
    """A prompt that was typed while the agent was working; other attachments say nothing."""
    added = row.get("attachment")
    typed = text_at(added, "commandMode") in ("", "prompt")
    if text_at(added, "type") == "queued_command" and typed:
        draft.seen(row.get("timestamp"))
        draft.says(texts_in(dig(added, "prompt"), "text"))


def _assistant(draft: SessionDraft, blocks: list[Json]) -> None:
    for block in blocks:
        if dig(block, "type") == "tool_use":
            draft.calls(text_at(block, "name"), dig(block, "input"))
