"""Every source tells the same story, and nothing that is not the user's."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_transcripts import (
    PROGRAMS,
    START,
    Story,
    Turn,
    claude_rows,
    codex_rows,
    iso,
    jsonl,
    pi_rows,
    settings_in,
    write_as,
    write_claude,
    write_codex,
    write_copilot_store,
    write_opencode,
)

from skillopt.core.temporary import swept
from skillopt_sleep.harvest import SOURCES
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.prompts import OWN_MARK
from skillopt_sleep.values import Mood, SessionsRead, Source

every_program = pytest.mark.parametrize("name", PROGRAMS)
ONE = Story(turns=(Turn(user="Please add retries to the uploader of the app"),))


def source(name: str, config: Settings) -> Source:
    return SOURCES.load(name)(config)


def read(name: str, folder: Path, **more: object) -> SessionsRead:
    return source(name, settings_in(folder, **more)).sessions(None)


def test_every_source_has_a_story() -> None:
    assert set(SOURCES.names) == set(PROGRAMS)


@every_program
def test_a_session_is_read_with_prompts_answers_tools_files_reactions_and_times(
    name: str, tmp_path: Path
) -> None:
    story, program = Story(), PROGRAMS[name]
    assert not source(name, settings_in(tmp_path)).found()
    write_as(name, tmp_path, story)
    assert source(name, settings_in(tmp_path)).found()
    (session,) = read(name, tmp_path).sessions
    assert (session.id, session.source, session.project) == ("s1", name, Path("/w/app"))
    assert session.prompts == tuple(turn.user for turn in story.turns)
    assert session.answers == ("Retries added.", "Fixed.")
    assert program.shell in session.tools
    assert session.commands == ("pytest -q",)
    assert session.files == ("src/up.py",)
    assert [(each.mood, each.turn) for each in session.reactions] == [(Mood.NEGATIVE, 1)]
    assert session.ended == story.end
    if "times" in program.knows:
        assert session.started == story.start
    if "branch" in program.knows:
        assert session.branch == "main"


@every_program
def test_a_session_that_ended_before_is_not_read_again(name: str, tmp_path: Path) -> None:
    story = Story()
    write_as(name, tmp_path, story)
    reader = source(name, settings_in(tmp_path))
    assert len(reader.sessions(story.end - timedelta(seconds=1)).sessions) == 1
    assert reader.sessions(story.end).sessions == ()


@every_program
def test_damage_is_told_and_does_no_further_harm(name: str, tmp_path: Path) -> None:
    path = write_as(name, tmp_path, Story())
    other = write_as(name, tmp_path / "whole", Story())
    good = path.read_bytes()
    for bad in (b"", good[: len(good) // 2], b"\x00\xff{" * 50, b'[1, 2]\n"x"\n' + good[:40]):
        path.write_bytes(bad)
        found = read(name, tmp_path)
        assert len(found.sessions) <= 1
        if bad.startswith(b"\x00"):
            assert found.sessions == ()
            assert sum(found.skipped.values()) > 0
            assert any(str(path) in notice for notice in found.notices)
    assert read(name, tmp_path / "whole").sessions[0].origin == other


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


def spoilt(value: Any, data: st.DataObject) -> Any:  # noqa: ANN401 - JSON
    """The same with something else in one place."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 5)):
        known = cast("dict[str, Any]", value)
        key = data.draw(st.sampled_from(sorted(known)))
        return {**known, key: spoilt(known[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 5)):
        items = cast("list[Any]", value)
        place = data.draw(st.integers(0, len(items) - 1))
        return [*items[:place], spoilt(items[place], data), *items[place + 1 :]]
    return data.draw(JUNK)


@every_program
@settings(max_examples=8)
@given(data=st.data())
def test_nothing_that_a_file_may_hold_raises(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp(name)
    path = write_as(name, folder, Story())
    if name == "opencode":
        with closing(sqlite3.connect(path)) as database, database:
            cell = data.draw(st.sampled_from(["message.data", "part.data", "session.directory"]))
            table, column = cell.split(".")
            junk = data.draw(JUNK.map(json.dumps) | st.binary() | st.none() | st.integers(0, 9))
            database.execute(f"UPDATE {table} SET {column} = ?", (junk,))
    else:
        lines = (
            path.read_text("utf-8").splitlines()
            if path.suffix == ".jsonl"
            else [path.read_text("utf-8")]
        )
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, len(lines) - 1))
            lines[place] = json.dumps(spoilt(json.loads(lines[place]), data))
        path.write_text("\n".join(lines), encoding="utf-8")
    found = read(name, folder)
    for session in found.sessions:
        assert session.prompts
        assert session.started <= session.ended
        assert len(session.answers) == len(session.prompts)
        repr(session).encode()


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    path = write_as("claude", tmp_path, Story())
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([lines[0], '{"type": "user", "mess', *lines[1:], "[" * 9000]))
    found = read("claude", tmp_path)
    assert [len(session.prompts) for session in found.sessions] == [2]
    assert found.skipped == {"damaged line": 2}
    assert found.notices == (f"{path}: 2 damaged lines were passed over",)


def test_a_correction_is_no_first_prompt_although_the_record_before_it_is_damaged(
    tmp_path: Path,
) -> None:
    turns = (Turn(user="Write the notes"), Turn(user="No, that is wrong"), Turn(user="Add a date"))
    path = write_as("claude", tmp_path, Story(turns=turns))
    rows = path.read_text("utf-8").splitlines()
    asked = next(at for at, row in enumerate(rows) if "Write the notes" in row)
    path.write_text("\n".join(['{"type": "us', *rows[asked + 1 :]]))
    (session,) = read("claude", tmp_path).sessions
    assert session.prompts == ("Add a date",)
    assert len(session.answers) <= 1


def test_a_pipe_in_the_place_of_a_transcript_is_not_waited_for(tmp_path: Path) -> None:
    path = write_as("claude", tmp_path, Story())
    os.mkfifo(path.with_name("pipe.jsonl"))
    found = read("claude", tmp_path)
    assert len(found.sessions) == 1
    assert found.skipped["damaged"] == 1


@every_program
def test_half_of_a_surrogate_pair_is_no_obstacle(name: str, tmp_path: Path) -> None:
    write_as(
        name, tmp_path, Story(turns=(Turn(user="Add retries \ud83d to it, please"), Turn(user="x")))
    )
    (session,) = read(name, tmp_path).sessions
    assert session.prompts[0].encode()


def test_records_that_are_not_the_users_are_counted_by_reason(tmp_path: Path) -> None:
    story = Story()
    base = {"type": "user", "timestamp": iso(START), "cwd": "/w/app", "sessionId": "s1"}

    def said(text: str, **more: object) -> dict[str, object]:
        return {**base, "message": {"role": "user", "content": text}, **more}

    rows = [
        said("# A skill's body", isMeta=True),
        said("This session is being continued from a previous conversation. Long."),
        said("Summary of it all", isCompactSummary=True),
        said("Look at the subagent's task", isSidechain=True),
        said("/clear"),
        said("<command-name>/model</command-name>\n<command-message>model</command-message>"),
        said("<local-command-stdout>Set model</local-command-stdout>"),
        said("Caveat: The messages below were generated by the user while running local commands."),
        said("[Request interrupted by user for tool use]"),
        *claude_rows(story),
    ]
    jsonl(tmp_path / "claude" / "projects" / "p" / "s1.jsonl", rows)
    jsonl(tmp_path / "claude" / "projects" / "p" / "agent-77.jsonl", rows)
    jsonl(tmp_path / "claude" / "projects" / "p" / "s1" / "subagents" / "agent-1.jsonl", rows)
    found = read("claude", tmp_path)
    assert found.skipped == {
        "command": 2,
        "injected text": 3,
        "interruption": 1,
        "meta record": 1,
        "side chain": 2,
        "side chain record": 1,
        "summary": 1,
    }
    (session,) = found.sessions
    assert session.prompts == tuple(turn.user for turn in story.turns)
    assert session.troubles == 1


def test_a_reminder_within_a_prompt_is_taken_out_of_it(tmp_path: Path) -> None:
    text = "<system-reminder>Be brief.</system-reminder>\nAdd retries to <b>all</b> uploads"
    write_claude(tmp_path / "claude", Story(turns=(Turn(user=text), Turn(user="fine"))))
    (session,) = read("claude", tmp_path).sessions
    assert session.prompts[0] == "Add retries to <b>all</b> uploads"


def test_a_path_at_the_start_of_a_prompt_is_no_command(tmp_path: Path) -> None:
    write_claude(
        tmp_path / "claude", Story(turns=(Turn(user="/etc/hosts is odd"), Turn(user="ok")))
    )
    (session,) = read("claude", tmp_path).sessions
    assert session.prompts[0] == "/etc/hosts is odd"


def test_files_of_a_snapshot_are_the_ones_it_tracks(tmp_path: Path) -> None:
    tracked = {"src/a.py": {"backupFileName": "a@v1"}, "/w/app/b.py": {}}
    snapshot = {"messageId": "m", "trackedFileBackups": tracked, "timestamp": iso(START)}
    rows = [*claude_rows(ONE), {"type": "file-history-snapshot", "snapshot": snapshot}]
    jsonl(tmp_path / "claude" / "projects" / "p" / "s1.jsonl", rows)
    (session,) = read("claude", tmp_path).sessions
    assert session.files == ("src/a.py", "b.py")


def test_a_skill_is_used_by_its_tool_or_by_reading_its_file(tmp_path: Path) -> None:
    write_claude(
        tmp_path / "claude", Story(turns=(Turn(user="Add it, please", skill="http-client"),))
    )
    cat = "cat /home/me/.agents/skills/deploy/SKILL.md"
    write_codex(tmp_path / "codex", Story(turns=(Turn(user="Ship it, please", shell=cat),)))
    assert read("claude", tmp_path).sessions[0].skills == ("http-client",)
    assert read("codex", tmp_path).sessions[0].skills == ("deploy",)


def test_turns_that_codex_logs_twice_count_once_and_repeated_ones_twice(tmp_path: Path) -> None:
    turns = (Turn(user="Add retries, please"), Turn(user="continue"), Turn(user="continue"))
    write_codex(tmp_path / "codex", Story(turns=turns))
    (session,) = read("codex", tmp_path).sessions
    assert session.prompts == ("Add retries, please", "continue", "continue")
    assert session.commit == "0123abc"


def test_a_session_in_the_live_folder_and_the_archive_counts_once(tmp_path: Path) -> None:
    story = Story()
    write_codex(tmp_path / "codex", story)
    jsonl(tmp_path / "codex" / "archived_sessions" / "s1.jsonl", codex_rows(story))
    found = read("codex", tmp_path)
    assert len(found.sessions) == 1
    assert found.skipped["duplicate"] == 1


def test_a_session_that_was_continued_in_a_new_file_counts_once_and_whole(tmp_path: Path) -> None:
    story = Story()
    longer = replace(story, id="s2", turns=(*story.turns, Turn(user="Thanks, that works.")))
    write_claude(tmp_path / "claude", story)
    write_claude(tmp_path / "claude", longer)
    found = read("claude", tmp_path)
    assert [(each.id, len(each.prompts)) for each in found.sessions] == [("s2", 3)]
    assert found.skipped == {"duplicate": 1}


def test_subagents_are_side_chains(tmp_path: Path) -> None:
    write_codex(tmp_path / "codex", Story(), source={"subagent": "review"})
    write_opencode(tmp_path / "opencode" / "opencode.db", Story(), parent="root")
    assert read("codex", tmp_path).skipped["side chain"] == 1
    assert read("opencode", tmp_path).skipped == {"side chain": 1}


def test_sessions_without_a_person_are_headless_unless_they_are_wanted(tmp_path: Path) -> None:
    write_claude(tmp_path / "claude", ONE, entrypoint="sdk-cli")
    write_codex(tmp_path / "codex", ONE, source="exec")
    quick = replace(ONE, turns=(Turn(user="Say hi"),))
    path = write_as("gemini", tmp_path, quick)
    path.write_text(path.read_text("utf-8").replace("09:00:40", "09:00:01"), encoding="utf-8")
    for name in ("claude", "codex", "gemini"):
        assert read(name, tmp_path).sessions == ()
        assert read(name, tmp_path).skipped["headless"] == 1
        assert len(read(name, tmp_path, headless=True).sessions) == 1


def test_a_session_that_a_person_continued_is_not_headless(tmp_path: Path) -> None:
    write_claude(tmp_path / "claude", Story(), entrypoint="sdk-cli")
    assert len(read("claude", tmp_path).sessions) == 1


def test_our_own_sessions_are_recognised(tmp_path: Path) -> None:
    prompts = Path(__file__).parents[2] / "skillopt" / "optimizer" / "prompts"
    ours = [path.read_text("utf-8") for path in sorted(prompts.glob("*.md"))]
    assert len(ours) > 20
    mine = Path(__file__).parents[2] / "skillopt_sleep" / "prompts" / "sleep_mine.md"
    for number, text in enumerate([*ours, mine.read_text("utf-8"), f"Do it. {OWN_MARK}"]):
        turns = (Turn(user=f"{text}\n\n<skill>\n..."), Turn(user="more"))
        write_claude(tmp_path / "claude", Story(id=f"p{number}", turns=turns))
    with swept("sandbox") as prefix:
        write_claude(tmp_path / "claude", Story(id="box", project=f"/var/x/{prefix}abc/workspace"))
    write_claude(tmp_path / "claude", Story(id="home", project="/tmp/skillopt-ab12/work"))
    write_claude(tmp_path / "claude", Story(id="state", project="/w/app/.skillopt-sleep/staging"))
    trained = (Turn(user="Do the task at hand", skill="skillopt-target"),)
    write_claude(tmp_path / "claude", Story(id="target", turns=trained))
    found = read("claude", tmp_path)
    assert found.sessions == ()
    assert found.skipped == {"own": len(ours) + 2 + 4}
    write_opencode(
        tmp_path / "opencode" / "opencode.db", Story(), agent=f"skillopt-sleep-{'0a' * 16}"
    )
    assert read("opencode", tmp_path).skipped["own"] == 1
    write_claude(tmp_path / "claude", Story(id="user", project="/w/skillopt-fork"))
    assert [each.id for each in read("claude", tmp_path).sessions] == ["user"]


def test_sessions_of_other_tools_are_known_by_markers_of_the_user(tmp_path: Path) -> None:
    write_claude(
        tmp_path / "claude", Story(turns=(Turn(user="[bot-7] nightly sweep"), Turn(user="x")))
    )
    assert read("claude", tmp_path, agent_markers=("[bot-7]",)).skipped == {"another tool": 1}
    assert len(read("claude", tmp_path).sessions) == 1


def test_a_folder_whose_name_is_a_key_is_told_and_one_with_words_of_a_key_is_read(
    tmp_path: Path,
) -> None:
    key = f"sk-{'a1B2' * 8}"
    for name, home in (("sk-learn-tutorial", "one"), ("sk-website-2026", "two"), (key, "three")):
        write_as("claude", tmp_path / home, replace(ONE, project=f"/work/{name}"))
    assert len(read("claude", tmp_path / "one").sessions) == 1
    assert len(read("claude", tmp_path / "two").sessions) == 1
    found = read("claude", tmp_path / "three")
    assert found.skipped == {"secret in its path": 1}
    (notice,) = found.notices
    assert "--no-redact" in notice
    assert key not in notice
    assert len(read("claude", tmp_path / "three", redact=False).sessions) == 1


def test_the_events_of_copilot_win_over_its_database(tmp_path: Path) -> None:
    write_as("copilot_cli", tmp_path, Story())
    store = write_copilot_store(
        tmp_path / "copilot_cli" / "session-store.db",
        Story(),
        Story(id="old", start=START - timedelta(1)),
    )
    old, new = read("copilot_cli", tmp_path).sessions
    assert (old.id, old.origin, old.started) == ("old", store, START - timedelta(1))
    assert (old.prompts, old.answers) == (new.prompts, new.answers)
    assert (old.files, old.tools) == (("src/up.py",), ("edit",))
    assert (new.id, new.tools) == ("s1", ("bash", "edit"))


def test_a_database_that_is_locked_is_read_from_a_copy(tmp_path: Path) -> None:
    path = write_opencode(tmp_path / "opencode" / "opencode.db", Story())
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert len(read("opencode", tmp_path).sessions) == 1


def test_a_tree_is_read_along_its_last_branch(tmp_path: Path) -> None:
    rows = pi_rows(Story())
    left = {"type": "message", "id": "x", "parentId": "a0", "timestamp": iso(START)}
    abandoned = {**left, "message": {"role": "user", "content": "An abandoned thought"}}
    summary = {"type": "compaction", "id": "c", "parentId": "a1", "summary": "All of it"}
    jsonl(
        tmp_path / "pi" / "agent" / "sessions" / "p" / "s1.jsonl",
        [*rows[:3], abandoned, *rows[3:], summary],
    )
    found = read("pi", tmp_path)
    assert found.sessions[0].prompts == tuple(turn.user for turn in Story().turns)
    assert found.skipped == {"summary": 1}


def test_a_file_without_a_header_is_no_session_of_pi(tmp_path: Path) -> None:
    jsonl(tmp_path / "pi" / "agent" / "sessions" / "p" / "s1.jsonl", pi_rows(Story())[1:])
    assert read("pi", tmp_path).skipped == {"damaged": 1}


def test_a_transcript_of_cursor_without_a_trusted_workspace_is_found_by_its_folder(
    tmp_path: Path,
) -> None:
    path = write_as("cursor", tmp_path, Story())
    (path.parents[2] / ".workspace-trusted").unlink()
    assert read("cursor", tmp_path).sessions[0].project == Path("/w/app")
    assert read("cursor", tmp_path, project=Path("/w/other")).skipped == {"no project": 1}


def test_a_transcript_of_devin_belongs_to_the_project_whose_files_it_names(tmp_path: Path) -> None:
    path = write_as("devin", tmp_path, Story())
    whole = json.loads(path.read_text("utf-8"))
    del whole["cwd"]
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert read("devin", tmp_path).sessions[0].project == Path("/w/app")
    assert read("devin", tmp_path, project=Path("/w/ap")).skipped == {"no project": 1}


def test_a_session_of_our_own_format_with_a_wrong_key_is_told(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "jsonl" / "sessions.jsonl", [{"id": "a", "projct": "/w"}, {"id": "b"}])
    found = read("jsonl", tmp_path)
    assert found.skipped == {"damaged": 2}
    assert found.notices[0].startswith(f"{path}: session 1: unknown key 'projct'; known: branch,")
    assert found.notices[1] == f"{path}: session 2: 'project' is missing"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_times_are_utc_whatever_the_zone_of_the_machine(
    zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        write_copilot_store(tmp_path / "copilot_cli" / "session-store.db", Story())
        write_as("claude", tmp_path, Story())
        for name in ("copilot_cli", "claude"):
            (session,) = read(name, tmp_path).sessions
            assert session.started.isoformat() == "2026-03-02T09:00:00+00:00"
            assert session.ended == Story().end
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_prompt_that_was_typed_while_the_agent_worked_counts(tmp_path: Path) -> None:
    added = {
        "type": "queued_command",
        "prompt": "Also do the logs, please",
        "commandMode": "prompt",
    }
    note = {**added, "prompt": "A task has ended", "commandMode": "task-notification"}
    rows = [
        {"type": "attachment", "timestamp": iso(START), "attachment": each}
        for each in (added, note)
    ]
    jsonl(tmp_path / "claude" / "projects" / "p" / "s1.jsonl", [*claude_rows(ONE), *rows])
    (session,) = read("claude", tmp_path).sessions
    assert session.prompts == (ONE.turns[0].user, "Also do the logs, please")


def test_a_chat_of_an_older_editor_is_one_document(tmp_path: Path) -> None:
    path = write_as("copilot", tmp_path, Story())
    request = {
        "agent": {"extensionId": "GitHub.copilot-chat"},
        "message": {"text": "Add retries"},
        "timestamp": 1772442001000,
        "response": [{"kind": "markdownContent", "content": {"value": "Done."}}],
    }
    system = {**request, "isSystemInitiated": True}
    other = {**request, "agent": {"extensionId": "some.other"}}
    whole = {
        "sessionId": "old",
        "creationDate": 1772442000000,
        "requests": [request, system, other],
    }
    path.with_name("old.json").write_text(json.dumps(whole), encoding="utf-8")
    found = read("copilot", tmp_path)
    assert [
        (each.id, each.prompts, each.answers) for each in found.sessions if each.id == "old"
    ] == [("old", ("Add retries",), ("Done.",))]
    assert found.skipped == {"injected text": 2}


def test_a_workspace_of_several_folders_is_where_its_file_is(tmp_path: Path) -> None:
    path = write_as("copilot", tmp_path, Story())
    said = json.dumps({"workspace": "file:///w/my%20app/all.code-workspace"})
    (path.parents[1] / "workspace.json").write_text(said, encoding="utf-8")
    assert read("copilot", tmp_path).sessions[0].project == Path("/w/my app")
    (path.parents[1] / "workspace.json").unlink()
    assert read("copilot", tmp_path).skipped == {"no project": 1}


def test_a_session_of_gemini_that_was_wound_back_lacks_what_was_taken_back(tmp_path: Path) -> None:
    path = write_as("gemini", tmp_path, Story())
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"$rewindTo": "u1"}) + "\n")
    (session,) = read("gemini", tmp_path).sessions
    assert session.prompts == (Story().turns[0].user,)


@every_program
def test_a_place_may_be_named_below_the_home(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_as(name, tmp_path / "kept", Story())
    assert len(source(name, settings_in(Path("~/kept"))).sessions(None).sessions) == 1
