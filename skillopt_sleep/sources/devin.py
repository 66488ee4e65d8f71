"""Devin's CLI: `cli/transcripts/*.json` in its data folder, in the format ATIF."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from skillopt.config.secrets import with_variables
from skillopt.core.intake import MIB, Json, read_file, read_json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import dig, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead

_FILE_BYTES: Final = 256 * MIB
_FOLDER_KEYS: Final = ("cwd", "working_directory", "workspace", "workspace_path", "project")


class Devin:
    name = "devin"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = (settings.devin_home or _usual()).expanduser()

    def found(self) -> bool:
        return bool(self._files())

    def sessions(self, since: datetime | None) -> SessionsRead:
        return read_all(Intake(self.name, self._settings, since), self._files(), self._read)

    def _files(self) -> list[Path]:
        return files_below(self._folder, "cli/transcripts/*.json", "transcripts/*.json")

    def _read(self, path: Path, intake: Intake) -> SessionDraft | None:
        try:
            whole = read_json(read_file(path, _FILE_BYTES))
        except ValueError:
            intake.damaged(path, "is not JSON")
            return None
        draft = SessionDraft(path, id=text_at(whole, "session_id") or path.stem)
        draft.project = self._project(whole)
        for step in list_at(whole, "steps"):
            draft.seen(dig(step, "timestamp"))
            said = texts_in(dig(step, "message"), "text")
            if dig(step, "source") == "user":
                draft.says(said)
            elif dig(step, "source") == "agent":
                draft.answer(said)
            for call in list_at(step, "tool_calls"):
                name = text_at(call, "function_name") or text_at(call, "name")
                draft.calls(name, dig(call, "arguments"))
        return draft

    def _project(self, whole: Json) -> str:
        """The folder that the transcript names; or this project, if it names files in it.

        Other transcripts are of no known project, and a guess would teach the wrong one.
        """
        for place in (whole, dig(whole, "extra"), dig(whole, "agent", "extra")):
            for key in _FOLDER_KEYS:
                if text_at(place, key).startswith(("/", "file:")):
                    return text_at(place, key)
        project = str(self._settings.project.absolute())
        named = re.compile(re.escape(project) + r"(?![\w.-])")
        steps = list_at(whole, "steps")
        return project if any(named.search(str(step)) for step in steps) else ""


def _usual() -> Path:
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "devin"
    if sys.platform == "win32":
        for root in ("$LOCALAPPDATA", "$APPDATA"):
            if not (said := with_variables(root)).startswith("$"):
                return Path(said) / "devin"
    return home / ".local" / "share" / "devin"
