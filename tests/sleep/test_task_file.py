from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.errors import DataError
from skillopt_sleep.task_file import TaskFile, Unreviewed, read_tasks, require_reviewed, write_tasks
from skillopt_sleep.values import Check, MinedTask, Reference, Split

TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(str.strip)
REFERENCES = st.one_of(
    st.just(Reference(kind="none")),
    st.builds(Reference, kind=st.sampled_from(["exact", "rubric", "command"]), text=TEXT),
    st.just(Reference(kind="rule", checks=(Check("contains", "x"), Check("max_chars", 9)))),
)
TASKS = st.builds(
    MinedTask,
    id=TEXT,
    project=st.just(Path("/w/app")),
    intent=TEXT,
    context=TEXT,
    reference=REFERENCES,
    outcome=st.sampled_from(["success", "fail", "mixed", "unknown"]),
    tags=st.tuples(TEXT),
    frequency=st.integers(1, 9),
    pain=st.floats(0, 9),
    skill_hint=st.just("deploy"),
)


@settings(max_examples=40)
@given(
    st.lists(TASKS, max_size=4, unique_by=lambda task: task.id),
    st.sampled_from(["train", "val", "test"]),
    st.booleans(),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[MinedTask], split: Split, reviewed: bool
) -> None:
    path = tmp_path_factory.mktemp("tasks") / "tasks.json"
    file = TaskFile(
        project=Path("/w/app"),
        tasks=tuple(replace(task, split=split) for task in tasks),
        source="claude",
        sessions=3,
        reviewed=reviewed,
    )
    write_tasks(path, file)
    assert read_tasks(path) == file


def write(path: Path, *tasks: dict[str, Any], **more: object) -> Path:
    document = {"format": "skillopt_sleep.tasks.v1", "project": "/w", "tasks": list(tasks), **more}
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return path


GOOD: dict[str, Any] = {"id": "a", "intent": "Do it"}
RULE: dict[str, Any] = {**GOOD, "reference_kind": "rule"}


def test_a_file_of_the_original_is_read(tmp_path: Path) -> None:
    task = {
        "id": "wk-09",
        "intent": "Outline a guide",
        "reference_kind": "rubric",
        "rubric": "Five ordered sections",
        "attempted_solution": "...",
        "split": "holdout",
        "judge": None,
    }
    (read,) = read_tasks(write(tmp_path / "t.json", task, n_sessions=2)).tasks
    assert (read.split, read.project) == ("val", Path("/w"))
    assert read.reference == Reference(kind="rubric", text="Five ordered sections")


@pytest.mark.parametrize(
    ("task", "line", "problem"),
    [
        ({**GOOD, "intnet": "x"}, 8, "tasks[0].intnet: unknown field; did you mean 'intent'?"),
        ({"id": "a"}, 5, "tasks[0].intent: is missing"),
        ({"id": "a", "intnt": "x"}, 7, "tasks[0].intnt: unknown field; did you mean 'intent'?"),
        (
            {**RULE, "judge": {"checks": [{"op": "contains", "arg": None}]}},
            13,
            "tasks[0].judge.checks[0].arg: should be a text or a whole number",
        ),
        ({**GOOD, "split": "vall"}, 8, "tasks[0].split: should be 'train', 'val'"),
        (RULE, 8, "tasks[0].reference_kind: rule needs checks, in judge.checks"),
        ({**GOOD, "reference_kind": "exact"}, 8, "tasks[0].reference_kind: exact needs a text"),
        ({**GOOD, "intent": " \n"}, 7, "tasks[0].intent: says nothing"),
        ({**GOOD, "pain": -1}, 8, "tasks[0].pain: should be greater than or equal to 0"),
        (
            {**RULE, "judge": {"checks": [{"op": "regex", "arg": "("}]}},
            11,
            "tasks[0].judge.checks[0]: regex: not a regular expression",
        ),
        (
            {**RULE, "judge": {"checks": [{"op": "tool_called", "arg": "/bin/sh"}]}},
            11,
            "tasks[0].judge.checks[0]: tool_called: the argument should be the name of a tool",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_line(
    task: dict[str, Any], line: int, problem: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.json", task)
    with pytest.raises(DataError) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {problem}")


def test_other_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a second task with the id 'a'"):
        read_tasks(write(tmp_path / "t.json", GOOD, GOOD))
    with pytest.raises(DataError, match=r"line 2: format: should be"):
        read_tasks(write(tmp_path / "t.json", GOOD, format="v2"))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_tasks(tmp_path / "none.json")
    (tmp_path / "t.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="is not JSON"):
        read_tasks(tmp_path / "t.json")
    (tmp_path / "t.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match="the file: should be an object"):
        read_tasks(tmp_path / "t.json")


def test_a_file_as_editors_of_windows_save_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", GOOD)
    plain = read_tasks(path)
    text = path.read_text(encoding="utf-8")
    path.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert read_tasks(path) == plain
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(DataError, match="not UTF-8; save the file as UTF-8"):
        read_tasks(path)


def test_a_file_that_nobody_reviewed_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", GOOD)
    with pytest.raises(Unreviewed, match='set "reviewed" to true') as caught:
        require_reviewed(path, read_tasks(path))
    assert caught.value.exit_code == 2
    require_reviewed(path, read_tasks(write(path, GOOD, reviewed=True)))


@pytest.mark.parametrize(
    "intent", ["Write the release notes of 1.2", "write the RELEASE notes of 1.3 please"]
)
def test_tasks_that_are_alike_on_different_sides_are_refused_with_both_ids(
    intent: str, tmp_path: Path
) -> None:
    one = {"id": "one", "intent": "Write the release notes of 1.2", "split": "train"}
    path = write(tmp_path / "t.json", GOOD, one, {"id": "two", "intent": intent, "split": "val"})
    with pytest.raises(DataError, match=r"line \d+: tasks\[2\]\.split: 'two' is in val, and 'one'"):
        read_tasks(path)
    write(path, GOOD, one, {"id": "two", "intent": intent, "split": "replay"})
    assert len(read_tasks(path).tasks) == 3


def test_a_field_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", GOOD, reviewed=False)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"reviewed"', '"reviewed": true,\n\t"reviewed"'), encoding="utf-8")
    with pytest.raises(DataError, match="'reviewed' twice"):
        read_tasks(path)
