"""Gemini CLI: `tmp/<project>/chats/session-*.jsonl` in ~/.gemini."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from skillopt.core.intake import MIB, Json, read_file, read_json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import dig, home_folder, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead

_FILE_BYTES: Final = 256 * MIB


class Gemini:
    name = "gemini"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = home_folder(settings.gemini_home, "", ".gemini")

    def found(self) -> bool:
        return bool(self._files())

    def sessions(self, since: datetime | None) -> SessionsRead:
        return read_all(Intake(self.name, self._settings, since), self._files(), self._read)

    def _files(self) -> list[Path]:
        return files_below(self._folder / "tmp", "*/chats/*.jsonl", "*/chats/*.json")

    def _read(self, path: Path, intake: Intake) -> SessionDraft:
        head, messages = _messages(path, intake)
        draft = SessionDraft(path, id=text_at(head, "sessionId") or path.stem)
        draft.project = self._project(path.parent.parent, text_at(head, "projectHash"))
        draft.side_chain = text_at(head, "kind") not in ("", "main")
        draft.seen(dig(head, "startTime"))
        for message in messages:
            draft.seen(dig(message, "timestamp"))
            kind, content = text_at(message, "type"), dig(message, "content")
            if kind == "user":
                draft.says(texts_in(content))
            elif kind == "gemini":
                draft.answer(texts_in(content))
                asked = [dig(part, "functionCall") for part in list_at(content)]
                for call in list_at(message, "toolCalls") or asked:
                    draft.calls(text_at(call, "name"), dig(call, "args"))
            elif kind == "error":
                draft.troubles += 1
        return draft

    def _project(self, folder: Path, digest: str) -> str:
        """What the folder itself says; or this project, if the folder is named after its hash."""
        try:
            return read_file(folder / ".project_root", MIB).decode("utf-8", "replace").strip()
        except OSError:
            pass
        project = self._settings.project.absolute()
        for place in (project, *project.parents):
            if sha256(str(place).encode()).hexdigest() in (digest, folder.name):
                return str(place)
        return ""


def _messages(path: Path, intake: Intake) -> tuple[Json, list[Json]]:
    """What the file says of itself, and its messages; a message that was written again once."""
    if path.suffix == ".json":
        whole = read_json(read_file(path, _FILE_BYTES))
        return whole, list_at(whole, "messages")
    head: dict[str, Json] = {}
    kept: dict[str, Json] = {}
    for row in intake.rows(path):
        change = row.get("$set")
        if isinstance(change, dict):
            for message in list_at(change, "messages"):
                _keep(kept, message)
        elif rewound := text_at(row, "$rewindTo"):
            names = list(kept)
            for name in names[names.index(rewound) :] if rewound in kept else ():
                del kept[name]
        elif "projectHash" in row:
            head = head or row
        else:
            _keep(kept, row)
    return head, list(kept.values())


def _keep(kept: dict[str, Json], message: Json) -> None:
    """A message that is written again adds to what was there, but did not happen again."""
    name = text_at(message, "id")
    if name and isinstance(message, dict):
        earlier = kept.get(name)
        before = earlier if isinstance(earlier, dict) else {}
        kept[name] = {**before, **message, **_time(before)}


def _time(message: dict[str, Json]) -> dict[str, Json]:
    return {"timestamp": message["timestamp"]} if "timestamp" in message else {}
