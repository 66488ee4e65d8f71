"""Copilot Chat in VS Code: `workspaceStorage/<id>/chatSessions/*.jsonl`, a log of operations."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from skillopt.config.secrets import with_variables
from skillopt.core.intake import MIB, Json, read_file, read_json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import dig, list_at, path_of, text_at
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead

_EDITIONS: Final = ("Code", "Code - Insiders", "VSCodium")
_EXTENSION: Final = "github.copilot-chat"
_FILE_BYTES: Final = 256 * MIB


class Copilot:
    name = "copilot"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        given = settings.vscode_workspace_storage
        self._folders = [given.expanduser()] if given else _storages()

    def found(self) -> bool:
        return bool(self._files())

    def sessions(self, since: datetime | None) -> SessionsRead:
        return read_all(Intake(self.name, self._settings, since), self._files(), _read)

    def _files(self) -> list[Path]:
        patterns = ("*/chatSessions/*.jsonl", "*/chatSessions/*.json")
        return [path for folder in self._folders for path in files_below(folder, *patterns)]


def _storages() -> list[Path]:
    home = Path.home()
    roots = {
        "darwin": [home / "Library" / "Application Support"],
        "win32": [Path(with_variables("$APPDATA"))],
    }.get(sys.platform, [Path(with_variables("$XDG_CONFIG_HOME")), home / ".config"])
    users = [root / edition / "User" for root in roots for edition in _EDITIONS]
    users.append(Path(with_variables("$VSCODE_PORTABLE")) / "user-data" / "User")
    return [user / "workspaceStorage" for user in dict.fromkeys(users) if user.is_absolute()]


def _read(path: Path, intake: Intake) -> SessionDraft:
    if path.suffix == ".json":
        state = read_json(read_file(path, _FILE_BYTES))
    else:
        state = _replayed(path, intake)
    draft = SessionDraft(path, id=text_at(state, "sessionId") or path.stem, project=_project(path))
    draft.headless = False  # an editor's window was open
    draft.seen(dig(state, "creationDate"))
    for request in list_at(state, "requests"):
        extension = dig(request, "agent", "extensionId")
        name = text_at(extension, "value") or (extension if isinstance(extension, str) else "")
        if name.casefold() != _EXTENSION or dig(request, "isSystemInitiated") is True:
            draft.left_out["injected text"] += 1
            continue
        draft.seen(dig(request, "timestamp"))
        draft.seen(dig(request, "modelState", "completedAt"))
        draft.says(text_at(request, "message", "text"))
        _answer(draft, list_at(request, "response"))
        if dig(request, "result", "errorDetails"):
            draft.troubles += 1
    return draft


def _answer(draft: SessionDraft, parts: list[Json]) -> None:
    texts: list[str] = []
    for part in parts:
        kind = text_at(part, "kind")
        if kind in ("", "markdownContent"):
            value = dig(part, "value") if not kind else dig(part, "content", "value")
            texts.append(value if isinstance(value, str) else text_at(value, "value"))
        elif kind == "toolInvocationSerialized":
            draft.calls(text_at(part, "toolId"), dig(part, "toolSpecificData", "rawInput"))
            if text_at(part, "toolSpecificData", "kind") == "terminal":
                command = dig(part, "toolSpecificData", "commandLine")
                original = command if isinstance(command, str) else text_at(command, "original")
                if original:
                    draft.commands.append(original)
        elif kind == "textEditGroup":
            draft.changes(text_at(part, "uri", "fsPath") or path_of(text_at(part, "uri", "path")))
    draft.answer("".join(texts))


def _project(path: Path) -> str:
    """The folder that the workspace beside the transcripts stands for."""
    file = path.parent.parent / "workspace.json"
    try:
        said = read_json(read_file(file, MIB))
    except (OSError, ValueError):
        return ""
    folder = path_of(text_at(said, "folder"))
    return folder or str(Path(path_of(text_at(said, "workspace"))).parent).removeprefix(".")


def _replayed(path: Path, intake: Intake) -> Json:
    """The state after all operations; one that does not fit is passed over and told."""
    state: Json = {}
    for row in intake.rows(path):
        with intake.line():
            state = _after(state, row)
    return state


def _after(state: Json, row: dict[str, Json]) -> Json:
    kind, keys, value = row.get("kind"), list_at(row, "k"), row.get("v")
    if kind == 0 or not keys:
        return value
    holder: Json = state
    for key in keys[:-1]:
        holder = _inner(holder, key)
    last = keys[-1]
    if kind == 1:
        _put(holder, last, value)
    elif kind == 2:
        _extend(holder, last, value, row.get("i"))
    elif kind == 3 and isinstance(holder, dict) and isinstance(last, str):
        holder.pop(last, None)
    return state


def _inner(holder: Json, key: Json) -> Json:
    if isinstance(holder, dict) and isinstance(key, str):
        return holder.setdefault(key, {})
    if isinstance(holder, list) and isinstance(key, int):
        return holder[key]
    raise TypeError


def _put(holder: Json, key: Json, value: Json) -> None:
    if isinstance(holder, dict) and isinstance(key, str):
        holder[key] = value
    elif isinstance(holder, list) and isinstance(key, int):
        if key == len(holder):
            holder.append(value)
        else:
            holder[key] = value
    else:
        raise TypeError


def _extend(holder: Json, key: Json, value: Json, start: Json) -> None:
    """Cut a list at `start`, if that is given, and append."""
    if isinstance(holder, dict) and isinstance(key, str):
        found = holder.setdefault(key, [])
    else:
        found = _inner(holder, key)
    if not isinstance(found, list):
        raise TypeError
    if isinstance(start, int):
        del found[start:]
    found += value if isinstance(value, list) else []
