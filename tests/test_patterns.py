"""Every regular expression of the package takes time in proportion to the text."""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
SOURCE = Path(__file__).parent.parent / "skillopt"
# The simulator reads only what we wrote; these two are for one user's own pattern.
SKIPPED = ("testing/", "envs/processes.py", "__main__.py")
REPEATS = (500, 4_000)
MEASURABLE = 0.01
"""Seconds of processor time below which growth says nothing, and hurts nobody."""
STEEP = 24
"""Growth over eight times the text: 8 is linear, 64 quadratic."""
FIRST = 40
"""Characters of a class that are tried."""


def modules() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    return [each for each in found if not each.relative_to(SOURCE).as_posix().startswith(SKIPPED)]


def written(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Patterns that are written into calls such as `re.sub(r"...", ...)`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=verb),
                args=[ast.Constant(value=str(text)), *_],
            ) if verb != "compile":
                flags = re.DOTALL if "DOTALL" in ast.unparse(node) else 0
                yield text, flags, verb in {"match", "fullmatch"}
            case _:
                pass


def compiled(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Patterns that a module keeps; True: tried at one place only, not searched for."""
    source = path.read_text(encoding="utf-8")
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for called, value in vars(import_module(name.removesuffix(".__init__"))).items():
        uses = set(re.findall(rf"\b{re.escape(called)}\.(\w+)\(", source))
        for each in cast("Iterable[object]", value if isinstance(value, tuple) else (value,)):
            if isinstance(each, re.Pattern):
                kept = cast("re.Pattern[Any]", each)
                fixed = bool(uses) and uses <= {"match", "fullmatch"}
                if isinstance(kept.pattern, str):
                    yield kept.pattern, kept.flags & ~re.UNICODE, fixed


PATTERNS = sorted({each for path in modules() for each in (*written(path), *compiled(path))})


def sample(items: Any) -> str:  # noqa: ANN401 - the parser's own nested data
    """A text that the parsed pattern would go along with."""
    return "".join(map(one, items))


def one(item: Any) -> str:  # noqa: ANN401, PLR0911
    kind, value = item
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL" | "ANY":
            return "x"
        case "IN":
            return next((each for each in characters(value)), "x")
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return sample(value[2]) * max(value[0], 1)
        case "SUBPATTERN":
            return sample(value[3])
        case "ATOMIC_GROUP":
            return sample(value)
        case "BRANCH":
            return sample(value[1][0])
        case _:
            return ""


def characters(items: Any) -> Iterator[str]:  # noqa: ANN401
    classes = {"DIGIT": "1", "SPACE": " ", "WORD": "a", "NOT_DIGIT": "x", "NOT_SPACE": "x"}
    negated = str(items[0][0]) == "NEGATE"
    if negated:
        whole = re.compile(f"[^{''.join(raw(each) for each in items[1:])}]")
        yield from (each for each in "x <{[\"'-/\\:1" if whole.match(each))
        return
    for kind, value in items:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "RANGE":
                yield chr(value[0])
            case "CATEGORY":
                yield classes.get(str(value).removeprefix("CATEGORY_"), "-")
            case _:
                pass


def raw(item: Any) -> str:  # noqa: ANN401
    kind, value = item
    match str(kind):
        case "LITERAL":
            return re.escape(chr(value))
        case "RANGE":
            return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        case _:
            named = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
            return named.get(str(value).removeprefix("CATEGORY_"), "")


def pumps(pattern: str, flags: int) -> set[str]:
    """Texts to repeat: what the beginnings and the parts of a pattern go along with."""
    items = cast("list[tuple[Any, Any]]", list(parser.parse(pattern, flags & re.VERBOSE)))
    parts: set[str] = set()
    for stop in range(1, len(items) + 1):
        parts |= {sample(items[:stop]), sample(items[stop - 1 : stop])}
        parts |= {f"{sample(items[:stop])}!", f"!{sample(items[:stop])}"}
    for kind, value in items:
        if str(kind) == "IN":
            parts |= set(list(characters(value))[:FIRST])
        if str(kind) == "BRANCH":
            parts |= {sample(each) for each in value[1]}
    return {each for each in parts if each}


def seconds(pattern: re.Pattern[str], text: str, *, fixed: bool) -> float:
    taken: list[float] = []
    for _ in range(3):
        start = time.process_time()
        if fixed:
            pattern.match(text)
            pattern.fullmatch(text)
        else:
            for _ in pattern.finditer(text):
                pass
        taken.append(time.process_time() - start)
        if taken[-1] < MEASURABLE:
            break
    return min(taken)


@pytest.mark.parametrize(("pattern", "flags", "fixed"), PATTERNS)
def test_eight_times_the_text_takes_about_eight_times_as_long(
    pattern: str, flags: int, fixed: bool
) -> None:
    made = re.compile(pattern, flags)
    small, large = REPEATS
    for pump in pumps(pattern, flags):
        for text in (pump, f"{pump[:1]}", f"{pump[-1:]}"):
            long = seconds(made, text * large, fixed=fixed)
            if long >= MEASURABLE:
                growth = long / max(seconds(made, text * small, fixed=fixed), 1e-6)
                assert growth < STEEP, f"{text[:40]!r} repeated: {growth:.0f} times as long"


def test_the_walk_sees_the_patterns_of_the_package_and_knows_a_quadratic_one() -> None:
    assert len(PATTERNS) > 50
    with pytest.raises(AssertionError):
        test_eight_times_the_text_takes_about_eight_times_as_long("<[^>]*>", 0, False)
