from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support_transcripts import Story, Turn, write_claude, write_codex

from skillopt_sleep.task_file import read_tasks


def sleep(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`skillopt-sleep harvest` of a user whose home this is."""
    return subprocess.run(
        [sys.executable, "-m", "skillopt_sleep", "harvest", *words],
        cwd=home,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


def prepare(home: Path) -> None:
    project = str(home / "app")
    (home / "app").mkdir()
    turns = (
        Turn(user="Write the release notes for 1.2"),
        Turn(user="No, wrong: always use `UTC` dates, mail me at jane.doe@corp.example"),
    )
    write_claude(home / ".claude", Story(project=project, turns=turns))
    write_codex(home / ".codex", Story(id="c1", project=project))
    write_claude(home / ".claude", Story(id="x", project="/elsewhere"))
    path = home / ".claude" / "projects" / "broken" / "b.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")


def test_harvest_shows_where_sessions_are_from_and_which_tasks_are_in_them(tmp_path: Path) -> None:
    prepare(tmp_path)
    done = sleep(tmp_path, "--project", "app", "--lookback-hours", "0")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:3] == [
        "source sessions left out",
        "claude 1 1 damaged line, 1 no prompt, 1 another project",
        "codex 1 1 injected text",
    ]
    assert lines[4] == "task times pain check split"
    assert {line.partition(" 1 1.0 ")[0] for line in lines[5:]} == {
        "Write the release notes for 1.2",
        "Add retries to the uploader",
    }
    assert "broken/b.jsonl: 1 damaged line was passed over" in done.stderr


def test_harvest_writes_a_file_to_review_and_prints_the_same_as_json(tmp_path: Path) -> None:
    prepare(tmp_path)
    words = ("--project", "app", "--lookback-hours", "0", "--output", "out/tasks.json", "--json")
    done = sleep(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    written = (tmp_path / "out" / "tasks.json").read_text("utf-8")
    assert printed["tasks"] == json.loads(written)["tasks"]
    assert (printed["n_sessions"], printed["n_tasks"], printed["sessions_left"]) == (2, 2, 0)
    assert printed["skipped"]["another project"] == 1
    assert [each["source"] for each in printed["sources"]] == ["claude", "codex"]
    file = read_tasks(tmp_path / "out" / "tasks.json")
    assert (file.reviewed, file.sessions, file.source) == (False, 2, "claude,codex")
    assert "jane.doe" not in done.stdout + done.stderr + written
    assert not (tmp_path / ".skillopt-sleep").exists()


def test_a_file_that_is_the_work_of_a_person_is_replaced_only_by_force(tmp_path: Path) -> None:
    prepare(tmp_path)
    words = ("--project", "app", "--lookback-hours", "0", "--output", "tasks.json")
    path = tmp_path / "tasks.json"
    assert sleep(tmp_path, *words).returncode == 0
    assert sleep(tmp_path, *words).returncode == 0
    reviewed = path.read_text("utf-8").replace('"reviewed": false', '"reviewed": true')
    for text, why in ((reviewed, "was reviewed"), ("my notes\n", "is no task file")):
        path.write_text(text, encoding="utf-8")
        done = sleep(tmp_path, *words)
        assert done.returncode == 2
        assert why in " ".join(done.stderr.split())
        assert path.read_text("utf-8") == text
    assert sleep(tmp_path, *words, "--force").returncode == 0
    assert read_tasks(path).reviewed is False


def test_where_there_is_nothing_harvest_says_what_to_do(tmp_path: Path) -> None:
    done = sleep(tmp_path)
    assert done.returncode == 0
    assert done.stdout == "No sessions of any agent program were found here.\n"
    assert "--source" in done.stderr
    assert json.loads(sleep(tmp_path, "--json").stdout)["n_sessions"] == 0
