"""Cursor: `projects/<workspace>/agent-transcripts/<session>/*.jsonl` in ~/.cursor."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from skillopt.core.intake import MIB, read_file, read_json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import VARIABLES, dig, home_folder, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead


class Cursor:
    name = "cursor"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = (
            home_folder(settings.cursor_home, VARIABLES["cursor_home"], ".cursor") / "projects"
        )

    def found(self) -> bool:
        return self._folder.is_dir()

    def sessions(self, since: datetime | None) -> SessionsRead:
        patterns = ("*/agent-transcripts/*.jsonl", "*/agent-transcripts/*/*.jsonl")
        paths = files_below(self._folder, *patterns)
        return read_all(Intake(self.name, self._settings, since), paths, self._read)

    def _read(self, path: Path, intake: Intake) -> SessionDraft:
        workspace = self._folder / path.relative_to(self._folder).parts[0]
        draft = SessionDraft(path, id=path.stem, project=self._project(workspace))
        # Nothing has a time in these files: it began when the file was made, and ended with it.
        written = path.stat()
        draft.seen(getattr(written, "st_birthtime", written.st_mtime))
        draft.seen(written.st_mtime)
        draft.headless = False  # there is no time to judge by
        for row in intake.rows(path):
            content = dig(row, "message", "content")
            if row.get("role") == "user":
                draft.says(texts_in(content, "text"))
            elif row.get("role") == "assistant":
                draft.answer(texts_in(content, "text"))
                for block in list_at(content):
                    if dig(block, "type") == "tool_use":
                        draft.calls(text_at(block, "name"), dig(block, "input"))
            elif row.get("type") == "turn_ended" and row.get("status") == "error":
                draft.troubles += 1
        return draft

    def _project(self, workspace: Path) -> str:
        """What the workspace's own file says; or this project, if the folder is named after it."""
        try:
            said = read_json(read_file(workspace / ".workspace-trusted", MIB))
        except (OSError, ValueError):
            said = None
        if path := text_at(said, "workspacePath"):
            return path
        project = self._settings.project.absolute()
        for folder in (project, *project.parents):
            slug = re.sub(r"[^A-Za-z0-9]+", "-", str(folder)).strip("-")
            if slug and slug == workspace.name.strip("-"):
                return str(folder)
        return ""
