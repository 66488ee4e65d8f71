"""Codex: live `sessions/YYYY/MM/DD/rollout-*.jsonl` and `archived_sessions/*.jsonl` in ~/.codex."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from skillopt.core.intake import Json
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.draft import SessionDraft
from skillopt_sleep.sources.fields import VARIABLES, dig, home_folder, list_at, text_at, texts_in
from skillopt_sleep.sources.intake import Intake, files_below, read_all
from skillopt_sleep.values import SessionsRead


class Codex:
    name = "codex"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = home_folder(settings.codex_home, VARIABLES["codex_home"], ".codex")

    def found(self) -> bool:
        return any((self._folder / name).is_dir() for name in ("sessions", "archived_sessions"))

    def sessions(self, since: datetime | None) -> SessionsRead:
        patterns = ("sessions/**/*.jsonl", "archived_sessions/**/*.jsonl")
        intake = Intake(self.name, self._settings, since)
        return read_all(intake, files_below(self._folder, *patterns), _read)


def _read(path: Path, intake: Intake) -> SessionDraft:
    draft = SessionDraft(path)
    turns = _Turns(draft)
    for row in intake.rows(path):
        kind, payload = row.get("type"), row.get("payload")
        if kind == "session_meta":
            if not draft.id:
                _meta(draft, payload)
        elif kind == "turn_context":
            draft.project = draft.project or text_at(payload, "cwd")
        elif kind == "compacted":
            draft.left_out["summary"] += 1
        elif kind == "response_item":
            draft.seen(row.get("timestamp"))
            _item(draft, turns, payload)
        elif kind == "event_msg":
            draft.seen(row.get("timestamp"))
            _event(draft, turns, payload)
    return draft


class _Turns:
    """The user's turns, each of which is logged twice: as an item and as an event."""

    def __init__(self, draft: SessionDraft) -> None:
        self._draft = draft
        self._waiting: list[tuple[str, str]] = []
        """Turns of which only one of the two records has come yet."""

    def says(self, stream: str, text: str) -> None:
        other = ("event" if stream == "item" else "item", text.strip())
        if other in self._waiting:
            self._waiting.remove(other)
            return
        self._waiting.append((stream, text.strip()))
        self._draft.says(text)


def _meta(draft: SessionDraft, meta: Json) -> None:
    draft.seen(dig(meta, "timestamp"))
    draft.id = text_at(meta, "id") or text_at(meta, "session_id")
    draft.project = text_at(meta, "cwd")
    draft.branch = text_at(meta, "git", "branch")
    draft.commit = text_at(meta, "git", "commit_hash")
    source = dig(meta, "source")
    draft.side_chain = isinstance(source, dict) or text_at(meta, "thread_source") == "subagent"
    if isinstance(source, str):
        draft.headless = source == "exec"


def _item(draft: SessionDraft, turns: _Turns, item: Json) -> None:
    kind, role = text_at(item, "type"), text_at(item, "role")
    if kind == "message" and role == "user":
        for text in _typed(list_at(item, "content"), _kinds(item)):
            turns.says("item", text)
    elif kind == "message" and role == "assistant":
        draft.answer(texts_in(dig(item, "content"), "output_text"))
    elif kind == "local_shell_call":
        draft.calls("local_shell", dig(item, "action"))
    elif kind == "custom_tool_call":
        draft.calls(text_at(item, "name"), {"input": text_at(item, "input")})
    elif kind.endswith("_call"):
        name = text_at(item, "name") or kind.removesuffix("_call")
        draft.calls(name, dig(item, "arguments"))


def _kinds(item: Json) -> list[Json]:
    return list_at(item, "internal_chat_message_metadata_passthrough", "content_item_kinds")


def _typed(content: list[Json], kinds: list[Json]) -> list[str]:
    """The texts of a message that the user typed, where the program says what they are."""
    texts = [text_at(block, "text") for block in content if dig(block, "type") == "input_text"]
    if len(kinds) != len(texts):
        return texts
    marked = zip(texts, kinds, strict=True)
    return [text for text, kind in marked if not isinstance(kind, str) or _is_typed(kind)]


def _is_typed(kind: str) -> bool:
    return kind.startswith("user") or kind == "unknown"


def _event(draft: SessionDraft, turns: _Turns, event: Json) -> None:
    kind = text_at(event, "type")
    item, item_kind = dig(event, "item"), text_at(event, "item", "type")
    if kind == "user_message":
        turns.says("event", text_at(event, "message"))
    elif kind == "item_completed" and item_kind == "UserMessage":
        turns.says("event", texts_in(dig(item, "content"), "text"))
    elif kind == "item_completed" and item_kind == "FileChange":
        changed = dig(item, "changes")
        for path in changed if isinstance(changed, dict) else ():
            draft.changes(path)
    elif kind == "patch_apply_end":
        changed = dig(event, "changes")
        for path in changed if isinstance(changed, dict) else ():
            draft.changes(path)
    elif kind == "agent_message":
        draft.answer(text_at(event, "message"))
    elif kind in ("turn_aborted", "error", "stream_error"):
        draft.troubles += 1
