"""Rule checks of a task: what they may say, and whether an answer fulfils them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillopt.core.nearest import did_you_mean
from skillopt.envs.processes import found
from skillopt_sleep.values import Check

_TOOL: Final = re.compile(r"[A-Za-z_][\w.:-]{0,63}")
_LONGEST: Final = 2000
_SHORT: Final = 600
_SHAPE: Final = frozenset(("section_present", "section_contains", "max_chars", "min_chars"))
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
_REFUSALS: Final = (
    "i can't", "i cannot", "i can not", "i'm unable", "i am unable", "i'm not able",
    "i am not able", "i won't", "i will not", "i'm sorry, but", "sorry, but i", "unfortunately, i",
    "as an ai", "i don't have access", "i do not have access", "i don't know",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: Check
    passed: bool


async def evaluate(
    checks: Sequence[Check], answer: str, called: Collection[str] = (), *, seconds: float = 5.0
) -> tuple[CheckResult, ...]:
    """Try all checks on an answer; `called` are the tools that were really called.

    What an answer says about calls does not count. A pattern that takes longer than `seconds` is
    an `EnvironmentFault`: it says nothing about the answer.
    """
    return tuple(
        [CheckResult(check, await _holds(check, answer, called, seconds)) for check in checks]
    )


def problem_of(check: Check) -> str:
    """What is wrong with a check; empty if nothing is."""
    verify = _ARGUMENTS.get(check.op)
    if verify is None:
        hint = did_you_mean(check.op, _ARGUMENTS) or f"known: {', '.join(_ARGUMENTS)}"
        return f"unknown op {check.op!r}; {hint}"
    problem = verify(check.arg)
    return f"{check.op}: {problem}" if problem else ""


def doubts_about(checks: Sequence[Check]) -> str:
    """Why checks say little although nothing is wrong with them; empty if they do not."""
    if checks and all(check.op in _SHAPE for check in checks):
        return "they look at the shape of the answer only"
    return ""


def told(check: Check) -> str:
    """A check in words, for the optimizer and for people."""
    words = {
        "section_present": "has a section {!r}",
        "section_contains": "has a heading with {!r}",
        "max_chars": "is at most {} characters long",
        "min_chars": "is at least {} characters long",
        "contains": "contains {!r}",
        "not_contains": "does not contain {!r}",
        "regex": "matches the pattern {!r}",
        "no_refusal": "does not refuse",
        "tool_called": "was made with the tool {!r}",
    }
    return words[check.op].format(check.arg)


def _literal(arg: str | int) -> str:
    if not isinstance(arg, str) or not arg.strip():
        return "the argument should be text"
    return f"longer than {_LONGEST} characters" if len(arg) > _LONGEST else ""


def _number(arg: str | int) -> str:
    whole = isinstance(arg, int) and not isinstance(arg, bool) and arg >= 0
    return "" if whole else "the argument should be a whole number, 0 or more"


def _pattern(arg: str | int) -> str:
    if problem := _literal(arg):
        return problem
    try:
        re.compile(str(arg))
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    return ""


def _tool(arg: str | int) -> str:
    plain = isinstance(arg, str) and _TOOL.fullmatch(arg) and ".." not in arg
    return "" if plain else "the argument should be the name of a tool: letters, digits, _ . : -"


def _nothing(arg: str | int) -> str:
    return "" if arg in ("", 0) else "takes no argument"


_ARGUMENTS: Final[Mapping[str, Callable[[str | int], str]]] = {
    "contains": _literal,
    "not_contains": _literal,
    "regex": _pattern,
    "no_refusal": _nothing,
    "tool_called": _tool,
    "section_present": _literal,
    "section_contains": _literal,
    "max_chars": _number,
    "min_chars": _number,
}


async def _holds(check: Check, answer: str, called: Collection[str], seconds: float) -> bool:
    arg = str(check.arg)
    if check.op == "regex":
        return await found(arg, answer, case_sensitive=True, seconds=seconds)
    if check.op in ("max_chars", "min_chars"):
        size, bound = len(answer.strip()), int(check.arg)
        return size <= bound if check.op == "max_chars" else size >= bound
    simple: Mapping[str, Callable[[], bool]] = {
        "contains": lambda: arg in answer,
        "not_contains": lambda: arg not in answer,
        "no_refusal": lambda: not _refuses(answer),
        "tool_called": lambda: arg in called,
        "section_present": lambda: _has_section(answer, arg),
        "section_contains": lambda: any(
            arg.casefold() in heading.casefold() for heading in _HEADING.findall(answer)
        ),
    }
    return simple[check.op]()


def _refuses(answer: str) -> bool:
    text = answer.strip().casefold().replace("\u2019", "'")
    return not text or (len(text) < _SHORT and text.startswith(_REFUSALS))


def _has_section(answer: str, name: str) -> bool:
    """Whether a line is this name as a heading, in bold, or as a label with nothing behind it."""
    wanted = name.strip().casefold()
    for line in answer.splitlines():
        heading = _HEADING.match(line)
        bare = (heading[1] if heading else line).strip()
        marked = heading is not None or bare.startswith(("**", "__")) or bare.endswith(":")
        if marked and bare.strip("*_: \t").casefold() == wanted:
            return True
    return False
