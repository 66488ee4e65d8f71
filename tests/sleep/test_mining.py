from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support_transcripts import START

from skillopt_sleep.mining import mine
from skillopt_sleep.settings import Settings
from skillopt_sleep.sources.reactions import Reactions
from skillopt_sleep.values import MinedTask, Session

COUNT = iter(range(10_000))


def session(
    *prompts: str,
    project: Path = Path("/w/app"),
    commands: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
    skills: tuple[str, ...] = (),
    troubles: int = 0,
    started: datetime = START,
) -> Session:
    number = next(COUNT)
    return Session(
        id=f"s{number}",
        source="claude",
        project=project,
        started=started,
        ended=started + timedelta(minutes=number),
        prompts=prompts,
        answers=("ok",) * len(prompts),
        reactions=Reactions().among(prompts),
        commands=commands,
        files=files,
        skills=skills,
        troubles=troubles,
    )


def mined(*sessions: Session, **more: object) -> tuple[MinedTask, ...]:
    return mine(sessions, Settings.model_validate(more))


@pytest.mark.parametrize(("replay", "kind"), [("model", "rule"), ("agent", "command")])
def test_a_test_that_was_run_is_the_reference_only_where_it_can_be_run(
    replay: str, kind: str
) -> None:
    said = ("Write the release notes", "No, that is wrong, always use `Refs:` there")
    (task,) = mined(session(*said, commands=("make test",)), replay=replay)
    assert task.reference.kind == kind


def test_the_same_wish_in_other_words_is_one_task_that_came_up_several_times() -> None:
    tasks = mined(
        session("Write the release notes for version 1.2"),
        session("write release notes for version 1.3, please"),
        session("Write the release notes for version 2.0!"),
        session("Explain the cache invalidation in the uploader"),
    )
    assert [task.frequency for task in tasks] == [3, 1]
    assert len(tasks[0].sessions) == 3
    assert tasks[0].intent == "Write the release notes for version 2.0!"


def test_the_same_words_in_two_projects_are_two_tasks() -> None:
    one, other = (
        session("Write the release notes"),
        session("Write the release notes", project=Path("/w/b")),
    )
    assert len({task.id for task in mined(one, other)}) == 2


def test_a_task_keeps_its_id_from_night_to_night() -> None:
    (one,) = mined(session("Write the release notes for version 1.2"))
    (other,) = mined(session("Write the release notes for version 9.17"))
    assert one.id == other.id


def test_a_task_keeps_its_id_where_the_project_is_moved() -> None:
    def ids(project: Path) -> list[str]:
        asked = "Write the release notes"
        sessions = (session(asked, project=project), session(asked, project=project / "web"))
        return sorted(task.id for task in mined(*sessions, project=project))

    assert ids(Path("/w/app")) == ids(Path("/home/ann/app"))
    assert len(set(ids(Path("/w/app")))) == 2


def test_painful_tasks_come_before_pleasant_ones() -> None:
    tasks = mined(
        session("Explain the cache of the uploader"),
        session("Rename the module of the parser", "No, that's wrong", "still wrong", "ok, thanks"),
        session("Add a changelog entry for it", "Perfect, thanks!"),
    )
    assert [(task.intent.split()[0], task.pain, task.outcome) for task in tasks] == [
        ("Rename", 2.0, "mixed"),
        *sorted(
            [("Explain", 0.0, "unknown"), ("Add", 0.0, "success")],
            key=lambda row: next(t.id for t in tasks if t.intent.startswith(row[0])),
        ),
    ]


def test_asking_again_in_the_same_words_is_pain_without_a_word_of_it() -> None:
    (task,) = mined(
        session("Rename the module parser", "rename the module parser!", "Rename module parser")
    )
    assert task.pain == 2.0


def test_errors_of_the_program_are_pain_too() -> None:
    (task,) = mined(session("Rename the module parser", troubles=3))
    assert task.pain == 3.0


def test_what_the_user_had_to_correct_is_not_given_away_in_the_task() -> None:
    prompts = ("Write the notes of today", "The audience are admins", "No, wrong: always use `UTC`")
    (task,) = mined(session(*prompts))
    assert task.context == "The audience are admins"
    assert "UTC" not in task.intent + task.context
    assert [(check.op, check.arg) for check in task.reference.checks] == [("contains", "UTC")]
    assert task.outcome == "fail"


def test_a_short_demand_is_a_correction_without_a_word_of_blame() -> None:
    (task,) = mined(
        session("Write a commit message", "shorter! max 72 characters", "Great, thanks")
    )
    assert [(check.op, check.arg) for check in task.reference.checks] == [("max_chars", 72)]
    assert (task.context, task.pain) == ("", 1.0)


def test_another_task_after_praise_is_a_task_of_its_own() -> None:
    tasks = mined(session("Rename the module parser", "Thanks! Now write a changelog entry for it"))
    assert {task.intent for task in tasks} == {
        "Rename the module parser",
        "Now write a changelog entry for it",
    }


def test_a_wish_that_opens_other_sessions_is_recognised_in_the_middle_of_one() -> None:
    tasks = mined(
        session("Write the release notes for 1.2"),
        session("Rename the module parser", "Write release notes for 1.4", "No, that is wrong"),
    )
    (notes,) = [task for task in tasks if "notes" in task.intent]
    assert (notes.frequency, notes.pain) == (2, 0.5)


def test_a_skill_is_hinted_at_if_all_sessions_used_the_same() -> None:
    assert mined(session("Ship the app to prod", skills=("deploy",)))[0].skill_hint == "deploy"
    two = (
        session("Ship the app to prod", skills=("deploy",)),
        session("Ship the app to prod", skills=("ship",)),
    )
    assert mined(*two)[0].skill_hint == ""


def test_a_night_has_no_more_tasks_than_it_may_and_at_most_one_is_in_no_split() -> None:
    words = ["cache", "parser", "upload", "invoice", "schema", "index", "queue", "router"]
    tasks = mined(
        *(session(f"Explain how the {word} of {word}s works") for word in words), max_tasks=5
    )
    assert len(tasks) == 5
    assert {task.split for task in tasks} >= {"train", "val"}


def test_where_there_are_too_many_those_that_can_be_checked_are_kept() -> None:
    often = [session("Explain the cache of the uploader") for _ in range(3)]
    once = session("Summarise the log in at most 50 words")
    assert [task.frequency for task in mined(*often, once)] == [3, 1]
    assert [task.frequency for task in mined(*often, once, max_tasks=1)] == [1]


def test_tiny_prompts_are_no_tasks() -> None:
    assert mined(session("hi"), session("ok")) == ()
    assert mined() == ()


def test_a_target_skill_chooses_the_tasks_that_it_is_about(tmp_path: Path) -> None:
    skill = tmp_path / "release-notes" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text(
        "# Release notes\n\nGroup changes by area, name the authors.\n", encoding="utf-8"
    )
    wishes = ("Write the release notes for 1.2", "Explain the cache", "Group these changes by area")
    tasks = mined(*map(session, wishes), target_skill_path=skill)
    assert [task.intent for task in tasks] == [wishes[0], wishes[2]]
    assert len(mined(session("Explain the cache"), target_skill_path=skill)) == 1


def test_a_task_knows_where_its_repository_stood(tmp_path: Path) -> None:
    def git(*words: str, date: str = "2026-03-01T00:00:00Z") -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words],
            env={
                "GIT_COMMITTER_DATE": date,
                "GIT_AUTHOR_DATE": date,
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    before = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "two", date="2026-03-03T00:00:00Z")
    (task,) = mined(session("Rename the module parser", project=tmp_path, commands=("make test",)))
    assert (task.commit, task.reference.kind, task.reference.text) == (
        before,
        "command",
        "make test",
    )


@pytest.mark.parametrize("project", [Path("/does/not/exist"), Path("/")])
def test_a_project_without_a_repository_has_no_commit(project: Path) -> None:
    assert mined(session("Rename the module parser", project=project))[0].commit == ""
