"""The same short session as each agent program would have written it down."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from skillopt_sleep.settings import Settings

START = datetime(2026, 3, 2, 9, 0, 0, tzinfo=timezone.utc)
NOW = START + timedelta(days=1)
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Turn:
    user: str
    agent: str = "Done."
    shell: str = ""
    writes: str = ""
    skill: str = ""


@dataclass(frozen=True, kw_only=True)
class Story:
    """A session; each turn takes a minute, in which the agent answers after 40 seconds."""

    id: str = "s1"
    project: str = "/w/app"
    start: datetime = START
    turns: Sequence[Turn] = (
        Turn(
            user="Add retries to the uploader",
            agent="Retries added.",
            shell="pytest -q",
            writes="/w/app/src/up.py",
        ),
        Turn(user="No, that is wrong: the delay has to double each time.", agent="Fixed."),
    )
    branch: str = "main"

    def at(self, turn: int, seconds: int = 0) -> datetime:
        return self.start + timedelta(minutes=turn, seconds=seconds)

    @property
    def end(self) -> datetime:
        return self.at(len(self.turns) - 1, 40)


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def jsonl(path: Path, rows: Iterable[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def claude_rows(story: Story, **extra: object) -> list[Row]:
    base: Row = {
        "cwd": story.project,
        "sessionId": story.id,
        "gitBranch": story.branch,
        "isSidechain": False,
        "entrypoint": "cli",
        **extra,
    }
    rows: list[Row] = []
    for number, turn in enumerate(story.turns):
        said = {"role": "user", "content": turn.user}
        rows.append({"type": "user", "timestamp": iso(story.at(number)), "message": said, **base})
        blocks: list[Row] = []
        if turn.skill:
            blocks.append({"type": "tool_use", "name": "Skill", "input": {"skill": turn.skill}})
        if turn.shell:
            blocks.append({"type": "tool_use", "name": "Bash", "input": {"command": turn.shell}})
        if turn.writes:
            blocks.append(
                {"type": "tool_use", "name": "Write", "input": {"file_path": turn.writes}}
            )
        blocks.append({"type": "text", "text": turn.agent})
        answer = {"role": "assistant", "content": blocks}
        when = iso(story.at(number, 40))
        rows.append({"type": "assistant", "timestamp": when, "message": answer, **base})
    return rows


def write_claude(home: Path, story: Story, **extra: object) -> Path:
    slug = story.project.replace("/", "-")
    return jsonl(home / "projects" / slug / f"{story.id}.jsonl", claude_rows(story, **extra))


def codex_rows(story: Story, source: object = "cli") -> list[Row]:
    meta = {
        "id": story.id,
        "cwd": story.project,
        "source": source,
        "git": {"branch": story.branch, "commit_hash": "0123abc"},
    }
    rows: list[Row] = [{"timestamp": iso(story.start), "type": "session_meta", "payload": meta}]

    def add(number: int, seconds: int, kind: str, payload: Row) -> None:
        when = iso(story.at(number, seconds))
        rows.append({"timestamp": when, "type": kind, "payload": payload})

    def message(role: str, kind: str, text: str) -> Row:
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    told = "<environment_context>\n<cwd>/w/app</cwd>\n</environment_context>"
    add(0, 0, "response_item", message("developer", "input_text", "Obey."))
    add(0, 0, "response_item", message("user", "input_text", told))
    for number, turn in enumerate(story.turns):
        add(number, 0, "event_msg", {"type": "user_message", "message": turn.user})
        add(number, 0, "response_item", message("user", "input_text", turn.user))
        if turn.shell:
            words = json.dumps({"cmd": turn.shell})
            call = {"type": "function_call", "name": "exec_command", "arguments": words}
            add(number, 5, "response_item", call)
        if turn.writes:
            patch = f"*** Begin Patch\n*** Update File: {turn.writes}\n@@\n*** End Patch"
            call = {"type": "custom_tool_call", "name": "apply_patch", "input": patch}
            add(number, 6, "response_item", call)
        add(number, 40, "event_msg", {"type": "agent_message", "message": turn.agent})
        add(number, 40, "response_item", message("assistant", "output_text", turn.agent))
    return rows


def write_codex(home: Path, story: Story, source: object = "cli") -> Path:
    name = f"rollout-{story.id}.jsonl"
    return jsonl(home / "sessions" / "2026" / "03" / "02" / name, codex_rows(story, source))


def write_copilot(storage: Path, story: Story) -> Path:
    folder = storage / "0a1b"
    folder.mkdir(parents=True, exist_ok=True)
    said = json.dumps({"folder": f"file://{story.project}"})
    (folder / "workspace.json").write_text(said, encoding="utf-8")
    snapshot: Row = {
        "version": 3,
        "sessionId": story.id,
        "creationDate": ms(story.start),
        "requests": [],
    }
    rows: list[Row] = [{"kind": 0, "v": snapshot}]
    for number, turn in enumerate(story.turns):
        request = {
            "agent": {"extensionId": {"value": "GitHub.copilot-chat"}},
            "message": {"text": turn.user},
            "timestamp": ms(story.at(number)),
            "response": [{"value": "Working on it, this is cut off again"}],
        }
        rows.append({"kind": 2, "k": ["requests"], "v": [request]})
        parts: list[Row] = []
        if turn.shell:
            terminal = {"kind": "terminal", "commandLine": {"original": turn.shell}}
            parts.append(
                {
                    "kind": "toolInvocationSerialized",
                    "toolId": "run_in_terminal",
                    "toolSpecificData": terminal,
                }
            )
        if turn.writes:
            parts.append({"kind": "textEditGroup", "uri": {"fsPath": turn.writes}, "edits": []})
        parts.append({"value": turn.agent})
        rows.append({"kind": 2, "k": ["requests", number, "response"], "i": 0, "v": parts})
        done = {"completedAt": ms(story.at(number, 40))}
        rows.append({"kind": 1, "k": ["requests", number, "modelState"], "v": done})
    rows.append({"kind": 1, "k": ["inputState"], "v": {}})
    rows.append({"kind": 3, "k": ["inputState"]})
    return jsonl(folder / "chatSessions" / f"{story.id}.jsonl", rows)


def write_copilot_cli(home: Path, story: Story) -> Path:
    context = {"cwd": story.project, "branch": story.branch}
    rows: list[Row] = []

    def add(number: int, seconds: int, kind: str, data: Row) -> None:
        rows.append({"type": kind, "timestamp": iso(story.at(number, seconds)), "data": data})

    add(0, 0, "session.start", {"sessionId": story.id, "context": context})
    add(0, 0, "system.message", {"content": "You are a terminal assistant."})
    for number, turn in enumerate(story.turns):
        add(number, 0, "user.message", {"content": turn.user, "transformedContent": "<x>"})
        if turn.shell:
            words = {"command": turn.shell}
            add(number, 5, "tool.execution_start", {"toolName": "bash", "arguments": words})
        if turn.writes:
            edit = {"fileEdits": [{"path": turn.writes, "kind": "edit"}]}
            add(number, 6, "tool.execution_start", {"toolName": "edit", "arguments": {}})
            add(number, 6, "tool.execution_complete", edit)
        add(number, 40, "assistant.message", {"content": turn.agent})
    return jsonl(home / "session-state" / story.id / "events.jsonl", rows)


def write_copilot_store(path: Path, *stories: Story) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE sessions (id TEXT, cwd TEXT, repository TEXT, branch TEXT,"
            " created_at TEXT, updated_at TEXT);"
            "CREATE TABLE turns (session_id TEXT, turn_index INTEGER, user_message TEXT,"
            " assistant_response TEXT);"
            "CREATE TABLE session_files (session_id TEXT, file_path TEXT, tool_name TEXT);"
        )
        for story in stories:
            times = [moment.strftime("%Y-%m-%d %H:%M:%S") for moment in (story.start, story.end)]
            row = (story.id, story.project, None, story.branch, *times)
            database.execute("INSERT INTO sessions VALUES (?,?,?,?,?,?)", row)
            for number, turn in enumerate(story.turns):
                said = (story.id, number, turn.user, turn.agent)
                database.execute("INSERT INTO turns VALUES (?,?,?,?)", said)
                if turn.writes:
                    changed = (story.id, turn.writes, "edit")
                    database.execute("INSERT INTO session_files VALUES (?,?,?)", changed)
    return path


def write_cursor(home: Path, story: Story) -> Path:
    workspace = home / "projects" / "w-app"
    rows: list[Row] = []
    for turn in story.turns:
        asked = f"<open_files>\nup.py\n</open_files>\n<user_query>\n{turn.user}\n</user_query>"
        said = {"content": [{"type": "text", "text": asked}]}
        rows.append({"role": "user", "message": said})
        blocks: list[Row] = []
        if turn.shell:
            words = {"command": turn.shell}
            blocks.append({"type": "tool_use", "name": "run_terminal_cmd", "input": words})
        if turn.writes:
            words = {"target_file": turn.writes}
            blocks.append({"type": "tool_use", "name": "edit_file", "input": words})
        blocks.append({"type": "text", "text": turn.agent})
        rows.append({"role": "assistant", "message": {"content": blocks}})
        rows.append({"type": "turn_ended", "status": "completed"})
    path = jsonl(workspace / "agent-transcripts" / story.id / f"{story.id}.jsonl", rows)
    trusted = json.dumps({"workspacePath": story.project})
    (workspace / ".workspace-trusted").write_text(trusted, encoding="utf-8")
    os.utime(path, (story.end.timestamp(), story.end.timestamp()))
    return path


def write_opencode(
    path: Path, *stories: Story, parent: str | None = None, agent: str = "build"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE IF NOT EXISTS session (id TEXT, parent_id TEXT, directory TEXT,"
            " agent TEXT, metadata TEXT, time_created INTEGER, time_updated INTEGER);"
            "CREATE TABLE IF NOT EXISTS message (id TEXT, session_id TEXT, time_created INTEGER,"
            " data TEXT);"
            "CREATE TABLE IF NOT EXISTS part (id TEXT, message_id TEXT, session_id TEXT,"
            " time_created INTEGER, data TEXT);"
        )
        for story in stories:
            meta = json.dumps({"gitBranch": story.branch})
            row = (story.id, parent, story.project, agent, meta, ms(story.start), ms(story.end))
            database.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?)", row)
            for number, turn in enumerate(story.turns):
                parts: list[Row] = [{"type": "text", "text": "injected", "synthetic": True}]
                parts.append({"type": "text", "text": turn.user})
                _opencode_message(database, story, number, 0, "user", parts)
                done: list[Row] = []
                if turn.shell:
                    state = {"status": "completed", "input": {"command": turn.shell}}
                    done.append({"type": "tool", "tool": "bash", "state": state})
                if turn.writes:
                    state = {"status": "completed", "input": {"filePath": turn.writes}}
                    done.append({"type": "tool", "tool": "write", "state": state})
                done.append({"type": "text", "text": turn.agent})
                _opencode_message(database, story, number, 40, "assistant", done)
    return path


def _opencode_message(
    database: sqlite3.Connection,
    story: Story,
    number: int,
    second: int,
    role: str,
    parts: list[Row],
) -> None:
    name, when = f"{story.id}-{number}-{second:02}", ms(story.at(number, second))
    database.execute(
        "INSERT INTO message VALUES (?,?,?,?)", (name, story.id, when, json.dumps({"role": role}))
    )
    for place, part in enumerate(parts):
        row = (f"{name}-{place}", name, story.id, when, json.dumps(part))
        database.execute("INSERT INTO part VALUES (?,?,?,?,?)", row)


def write_gemini(home: Path, story: Story) -> Path:
    folder = home / "tmp" / "app"
    rows: list[Row] = [
        {"sessionId": story.id, "projectHash": "h", "startTime": iso(story.start), "kind": "main"}
    ]
    context = "<session_context>\nToday is Monday.\n</session_context>"
    first = {
        "id": "0",
        "timestamp": iso(story.start),
        "type": "user",
        "content": [{"text": context}],
    }
    rows.append({"$set": {"messages": [first]}})
    for number, turn in enumerate(story.turns):
        said = {"id": f"u{number}", "timestamp": iso(story.at(number)), "type": "user"}
        rows.append({**said, "content": [{"text": turn.user}]})
        calls: list[Row] = []
        if turn.shell:
            calls.append({"name": "run_shell_command", "args": {"command": turn.shell}})
        if turn.writes:
            calls.append({"name": "write_file", "args": {"file_path": turn.writes}})
        answer = {"id": f"g{number}", "timestamp": iso(story.at(number, 40)), "type": "gemini"}
        rows.append({**answer, "content": ""})
        rows.append({**answer, "content": turn.agent, "toolCalls": calls})
        rows.append({"$set": {"lastUpdated": iso(story.at(number, 40))}})
    path = jsonl(folder / "chats" / f"session-{story.id}.jsonl", rows)
    (folder / ".project_root").write_text(story.project, encoding="utf-8")
    return path


def write_qwen(home: Path, story: Story) -> Path:
    base: Row = {"sessionId": story.id, "cwd": story.project, "gitBranch": story.branch}
    rows: list[Row] = []
    for number, turn in enumerate(story.turns):
        said = {"role": "user", "parts": [{"text": turn.user}]}
        rows.append({"type": "user", "timestamp": iso(story.at(number)), "message": said, **base})
        parts: list[Row] = [{"text": "thinking", "thought": True}]
        if turn.shell:
            call = {"name": "run_shell_command", "args": {"command": turn.shell}}
            parts.append({"functionCall": call})
        if turn.writes:
            parts.append({"functionCall": {"name": "edit", "args": {"file_path": turn.writes}}})
        parts.append({"text": turn.agent})
        when, answer = iso(story.at(number, 40)), {"role": "model", "parts": parts}
        rows.append({"type": "assistant", "timestamp": when, "message": answer, **base})
    return jsonl(home / "projects" / "-w-app" / "chats" / f"{story.id}.jsonl", rows)


def pi_rows(story: Story) -> list[Row]:
    head = {"type": "session", "version": 3, "id": story.id, "cwd": story.project}
    rows: list[Row] = [{**head, "timestamp": iso(story.start)}]
    last: str | None = None

    def add(name: str, when: datetime, message: Row) -> None:
        nonlocal last
        entry = {"type": "message", "id": name, "parentId": last, "timestamp": iso(when)}
        rows.append({**entry, "message": message})
        last = name

    for number, turn in enumerate(story.turns):
        add(f"u{number}", story.at(number), {"role": "user", "content": turn.user})
        blocks: list[Row] = [{"type": "thinking", "thinking": "hm"}]
        if turn.shell:
            words = {"command": turn.shell}
            blocks.append({"type": "toolCall", "name": "bash", "arguments": words})
        if turn.writes:
            blocks.append({"type": "toolCall", "name": "edit", "arguments": {"path": turn.writes}})
        blocks.append({"type": "text", "text": turn.agent})
        add(f"a{number}", story.at(number, 40), {"role": "assistant", "content": blocks})
    return rows


def write_pi(home: Path, story: Story) -> Path:
    return jsonl(home / "agent" / "sessions" / "--w-app--" / f"{story.id}.jsonl", pi_rows(story))


def write_openclaw(home: Path, story: Story) -> Path:
    return jsonl(home / "agents" / "main" / "sessions" / f"{story.id}.jsonl", pi_rows(story))


def write_devin(home: Path, story: Story) -> Path:
    steps: list[Row] = []
    for number, turn in enumerate(story.turns):
        steps.append({"source": "user", "message": turn.user, "timestamp": iso(story.at(number))})
        calls: list[Row] = []
        if turn.shell:
            calls.append({"function_name": "exec", "arguments": {"command": turn.shell}})
        if turn.writes:
            calls.append({"function_name": "edit", "arguments": {"path": turn.writes}})
        answer = {"source": "agent", "message": turn.agent, "timestamp": iso(story.at(number, 40))}
        steps.append({**answer, "tool_calls": calls})
    path = home / "cli" / "transcripts" / f"{story.id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"schema_version": "ATIF-v1.7", "session_id": story.id, "cwd": story.project}
    path.write_text(json.dumps({**whole, "steps": steps}), encoding="utf-8")
    return path


def write_sessions_file(path: Path, *stories: Story) -> Path:
    rows: list[Row] = []
    for story in stories:
        turns: list[Row] = []
        for turn in story.turns:
            tools: list[Row] = []
            if turn.shell:
                tools.append({"name": "bash", "arguments": {"command": turn.shell}})
            if turn.writes:
                tools.append({"name": "write", "arguments": {"path": turn.writes}})
            turns.append({"user": turn.user, "agent": turn.agent, "tools": tools})
        times = {"started": iso(story.start), "ended": iso(story.end)}
        where = {"project": story.project, "branch": story.branch}
        rows.append({"id": story.id, **where, **times, "turns": turns})
    return jsonl(path, rows)


@dataclass(frozen=True)
class Program:
    """How a test writes down a session of an agent program, and where that is looked for."""

    write: Callable[[Path, Story], Path]
    setting: str
    shell: str
    """The tool that runs commands."""
    place: str = ""
    """The file, where it is not a folder that the setting names."""
    knows: frozenset[str] = field(
        default_factory=lambda: frozenset(("branch", "times", "commands"))
    )


_TIMES = frozenset(("times", "commands"))
PROGRAMS: Mapping[str, Program] = {
    "claude": Program(write_claude, "claude_home", "Bash"),
    "codex": Program(write_codex, "codex_home", "exec_command"),
    "copilot": Program(write_copilot, "vscode_workspace_storage", "run_in_terminal", knows=_TIMES),
    "copilot_cli": Program(write_copilot_cli, "copilot_home", "bash"),
    "cursor": Program(
        write_cursor, "cursor_home", "run_terminal_cmd", knows=frozenset(("commands",))
    ),
    "devin": Program(write_devin, "devin_home", "exec", knows=_TIMES),
    "gemini": Program(write_gemini, "gemini_home", "run_shell_command", knows=_TIMES),
    "jsonl": Program(write_sessions_file, "sessions_file", "bash", "sessions.jsonl"),
    "openclaw": Program(write_openclaw, "openclaw_home", "bash", knows=_TIMES),
    "opencode": Program(write_opencode, "opencode_db", "bash", "opencode.db"),
    "pi": Program(write_pi, "pi_home", "bash", knows=_TIMES),
    "qwen": Program(write_qwen, "qwen_home", "run_shell_command"),
}


def settings_in(folder: Path, **more: object) -> Settings:
    """Settings under which every program is looked for below this folder."""
    places = {
        program.setting: folder / name / program.place if program.place else folder / name
        for name, program in PROGRAMS.items()
    }
    # Naming a file that is not there is an error.
    if not places["sessions_file"].expanduser().exists():
        del places["sessions_file"]
    values = {"project": Path("/w/app"), "lookback_hours": 0, "state_dir": folder / "state"}
    return Settings.model_validate({**values, **places, **more})


def write_as(name: str, folder: Path, story: Story) -> Path:
    """Write a session down as a program does, where `settings_in` looks for it."""
    program = PROGRAMS[name]
    place = folder / name / program.place if program.place else folder / name
    return program.write(place, story)
