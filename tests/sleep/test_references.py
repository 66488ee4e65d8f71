from __future__ import annotations

from collections.abc import Sequence

import pytest

from skillopt_sleep.checks import evaluate, problem_of
from skillopt_sleep.references import command_of_tests, derived
from skillopt_sleep.values import Check, Reference


def reference(
    intent: str = "Write the notes",
    *corrections: str,
    commands: Sequence[Sequence[str]] = (),
    changed_files: bool = False,
) -> Reference:
    return derived([intent], corrections, commands, changed_files=changed_files)


@pytest.mark.parametrize(
    ("command", "test"),
    [
        ("pytest -q", "pytest -q"),
        ("cd pkg && python -m pytest tests/a.py -x", "cd pkg && python -m pytest tests/a.py -x"),
        ("printf hi > notes.txt; pytest -q", "pytest -q"),
        ("npm test 2>&1 | tail -20", "npm test"),
        ("npm run test:unit", "npm run test:unit"),
        ("make -j4 test", "make -j4 test"),
        ("uv run pytest", "uv run pytest"),
        ("CI=1 cargo test --all", "CI=1 cargo test --all"),
        ("./gradlew test", "./gradlew test"),
        (".venv/bin/pytest tests", ".venv/bin/pytest tests"),
        ("go test ./...", "go test ./..."),
        ("npx vitest run", "npx vitest run"),
        ("ls; cat pytest.ini", ""),
        ("pip install pytest", ""),
        ("pytest $(cat /etc/passwd)", ""),
        ("pytest `whoami`", ""),
        ("cd /etc && make test", ""),
        ("cd ../other && make test", ""),
        ("pytest --token [redacted]", ""),
        ("grep pytest 'unclosed", ""),
        ("", ""),
    ],
)
def test_a_test_command_is_one_that_was_run_and_can_be_run_again(command: str, test: str) -> None:
    assert command_of_tests([[command]]) == test


def test_the_test_command_of_most_sessions_is_taken() -> None:
    sessions = [["make test"], ["pytest -q", "pytest -q"], ["make test"], ["ls"]]
    assert command_of_tests(sessions) == "make test"


def test_work_on_files_is_checked_by_the_tests_that_the_agent_ran() -> None:
    found = reference("Fix it", "No, always use `x`", commands=[["pytest"]], changed_files=True)
    assert found == Reference(kind="command", text="pytest")


def test_where_no_command_can_be_run_what_the_user_said_is_the_reference() -> None:
    def found(*corrections: str, changed_files: bool = False) -> str:
        return derived(
            ["Fix it"],
            corrections,
            [["pytest"]],
            changed_files=changed_files,
            runs_commands=False,
        ).kind

    assert found("No, always use `x`") == "rule"
    assert found("No, always use `x`", changed_files=True) == "rubric"
    assert found() == "command"


def test_a_correction_of_work_on_files_is_for_a_judge() -> None:
    found = reference("Fix it", "No, always use `tenacity` for retries", changed_files=True)
    assert found.kind == "rubric"
    assert found.text.endswith("\n- No, always use `tenacity` for retries")


@pytest.mark.parametrize(
    ("correction", "checks"),
    [
        ("No, always use `UTC` here", [Check("contains", "UTC")]),
        ("You must include the word \u201cBREAKING\u201d", [Check("contains", "BREAKING")]),
        ('Never write "etc."', [Check("not_contains", "etc.")]),
        ("Don't use `foo()`", [Check("not_contains", "foo()")]),
        ("Use `b` instead of `a`", [Check("contains", "b"), Check("not_contains", "a")]),
        ("Wrong. At most 80 characters", [Check("max_chars", 80)]),
        ("Bitte höchstens 80 Zeichen", [Check("max_chars", 80)]),
        ("Start it with `feat:`", [Check("regex", r"\A\s*feat:")]),
        ("It should start with `feat:` or `fix:`", [Check("regex", r"\A\s*(?:feat:|fix:)")]),
        ("Always use `a`, `b` or `c`", [Check("regex", "(?:a|b|c)")]),
        ("Never use `a` or `b`", [Check("not_contains", "a"), Check("not_contains", "b")]),
        ('It needs a section called "Risks"', [Check("section_present", "Risks")]),
        ("Nein, immer `UTC` verwenden, nie `CET`", [Check("not_contains", "CET")]),
    ],
)
def test_literal_demands_become_checks(correction: str, checks: list[Check]) -> None:
    found = reference("Write the notes", correction)
    assert found.kind == "rule"
    assert list(found.checks) == checks
    assert not any(map(problem_of, found.checks))


async def test_a_format_that_the_task_asks_for_is_checked() -> None:
    found = reference("List them. Answer only with JSON, at most 3 lines")
    assert found.kind == "rule"
    good = await evaluate(found.checks, '```json\n{"a": [1]}\n```')
    bad = await evaluate(found.checks, 'Here you are:\n{"a": 1}\n\nand\nmore')
    assert all(result.passed for result in good)
    assert not any(result.passed for result in bad)


async def test_a_limit_of_words_is_a_limit_of_words() -> None:
    found = reference("Summarise it in no more than 5 words")
    (check,) = found.checks
    assert [
        result.passed
        for text in ("a b c d e", "a b c d e f")
        for result in await evaluate([check], text)
    ] == [True, False]


def test_a_format_counts_only_if_every_wording_asks_for_it() -> None:
    both = ["Summarise, at most 80 characters", "Summarise, at most 80 characters"]
    assert derived(both, [], [], changed_files=False).kind == "rule"
    assert derived([both[0], "Summarise"], [], [], changed_files=False).kind == "none"


def test_an_answer_that_the_user_names_is_exact() -> None:
    assert reference("Add them", "No, it should be `42`") == Reference(kind="exact", text="42")


def test_a_correction_in_prose_is_for_a_judge_in_any_language() -> None:
    found = reference("Schreibe die Notizen", "Nein, das ist falsch: Daten immer in UTC angeben")
    assert found.kind == "rubric"
    assert "Daten immer in UTC angeben" in found.text
    assert reference("总结会议", "不对,要用列表").text.endswith("- 不对,要用列表")


def test_where_nothing_can_be_checked_there_is_no_reference() -> None:
    assert reference("Tell me about the code") == Reference(kind="none")
    assert reference("Tell me about the code", "No.").kind == "none"
