from __future__ import annotations

import pytest

from skillopt.errors import EnvironmentFault
from skillopt_sleep.checks import doubts_about, evaluate, problem_of, told
from skillopt_sleep.values import Check

ANSWER = "# Release 1.2\n\n**Notes**\n\nBREAKING: dates are UTC now.\n\nFixes:\n- one\n"


async def passes(op: str, arg: str | int = "", answer: str = ANSWER, *called: str) -> bool:
    (result,) = await evaluate([Check(op, arg)], answer, called)
    return result.passed


async def test_every_operation_says_yes_and_no() -> None:
    pairs: list[tuple[str, str | int, str | int]] = [
        ("contains", "BREAKING", "breaking"),
        ("not_contains", "local time", "UTC"),
        ("regex", r"\A# Release \d", r"\A## "),
        ("section_present", "Release 1.2", "Release"),
        ("section_present", "notes", "dates are UTC now."),
        ("section_present", "Fixes", "one"),
        ("section_contains", "release", "notes"),
        ("max_chars", 100, 10),
        ("min_chars", 10, 100),
    ]
    for op, right, wrong in pairs:
        assert await passes(op, right), (op, right)
        assert not await passes(op, wrong), (op, wrong)
    assert await passes("no_refusal")
    assert not await passes("no_refusal", answer="I\u2019m sorry, but I cannot do that.")
    assert not await passes("no_refusal", answer=" \n")
    assert await passes("no_refusal", answer="I cannot stress this enough. " + "x" * 600)


async def test_a_tool_was_called_only_if_it_was() -> None:
    assert await passes("tool_called", "search", "anything", "search")
    assert not await passes("tool_called", "search", "TOOL_CALL: search")


async def test_a_pattern_that_never_ends_is_a_fault_and_no_score() -> None:
    with pytest.raises(EnvironmentFault, match="took over"):
        await evaluate([Check("regex", r"(a+)+$")], "a" * 40 + "b", seconds=0.3)


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        (Check("contians", "x"), "unknown op 'contians'; did you mean 'contains'?"),
        (Check("contains", " "), "contains: the argument should be text"),
        (Check("contains", 5), "contains: the argument should be text"),
        (Check("regex", "("), "regex: not a regular expression: "),
        (Check("max_chars", -1), "max_chars: the argument should be a whole number"),
        (Check("max_chars", True), "max_chars: the argument should be a whole number"),
        (Check("min_chars", "9"), "min_chars: the argument should be a whole number"),
        (Check("no_refusal", "x"), "no_refusal: takes no argument"),
        (Check("tool_called", "/bin/sh"), "tool_called: the argument should be the name of a tool"),
        (Check("tool_called", "a b"), "tool_called: the argument should be the name of a tool"),
        (Check("tool_called", "..evil"), "tool_called: the argument should be the name of a tool"),
        (Check("tool_called", "a..b"), "tool_called: the argument should be the name of a tool"),
        (Check("tool_called", ""), "tool_called: the argument should be the name of a tool"),
    ],
)
def test_arguments_are_checked(check: Check, problem: str) -> None:
    assert problem_of(check).startswith(problem)


def test_a_right_check_has_no_problem_and_can_be_told() -> None:
    for check in (Check("max_chars", 0), Check("tool_called", "mcp__a.b:c-d"), Check("no_refusal")):
        assert problem_of(check) == ""
    assert told(Check("contains", "UTC")) == "contains 'UTC'"
    assert told(Check("max_chars", 10)) == "is at most 10 characters long"


def test_checks_of_shape_alone_are_doubtful() -> None:
    assert doubts_about([Check("max_chars", 10)])
    assert not doubts_about([Check("max_chars", 10), Check("contains", "x")])
