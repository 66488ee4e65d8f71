"""How an attempt at a mined task can be checked: found in what the user and the agent did.

Only what was really said or run becomes a reference: a test command that the agent ran, an answer
that the user named, literal texts that the user demanded or forbade, a length or a format that was
asked for, or else the user's corrections, for a judge. Where there is none of these, it is `none`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from skillopt.config.redaction import HIDDEN
from skillopt_sleep.checks import problem_of
from skillopt_sleep.values import Check, Reference

_MOST_CHECKS: Final = 8
_MOST_LINES: Final = 6
_LINE: Final = 300

_QUOTED: Final = (
    r"(?:`(?P<{0}a>[^`\n]{{1,120}})`|\"(?P<{0}b>[^\"\n]{{1,120}})\""
    r"|\u201c(?P<{0}c>[^\u201d\n]{{1,120}})\u201d)"
)
_ALWAYS: Final = (
    r"(?:always|must|should|have to|has to|needs? to|please|immer|muss|toujours|doit|siempre|debe|"
    r"sempre|deve|всегда|总是|必须|必ず|항상)"
)
_NEVER: Final = (
    r"(?:never|don't|do not|must not|mustn't|should not|shouldn't|stop|avoid|nie|niemals|"
    r"nicht|kein\w*|jamais|ne|nunca|no|não|mai|non|никогда|не|不要|别|절대)"
)
_USE: Final = (
    r"(?:use|using|include|contain|add|mention|say|saying|write|writing|put|call|verwende\w*|"
    r"benutze\w*|utilise\w*|usa\w*|используй\w*|使用|用)"
)
_GAP: Final = r"[^.!?\n`\"]{0,40}?"
_REQUIRED: Final = re.compile(rf"(?i)\b{_ALWAYS}\b{_GAP}\b{_USE}\b{_GAP}{_QUOTED.format('r')}")
_CLAUSE: Final = _GAP.replace(".", ".,;:", 1)
_FORBIDDEN: Final = re.compile(rf"(?i)(?<!\w){_NEVER}(?!\w){_CLAUSE}{_QUOTED.format('f')}")
_INSTEAD: Final = re.compile(
    rf"(?i){_QUOTED.format('r')}{_GAP}\b(?:instead of|rather than|not|statt|anstatt|au lieu de|"
    rf"en vez de|em vez de|invece di)\b{_GAP}{_QUOTED.format('f')}"
)
_EXPECTED: Final = re.compile(
    r"(?i)\b(?:the (?:right|correct|expected) (?:answer|output|result) is|"
    rf"it should (?:be|have been|say)|expected(?: output)?(?: is|:))\s*{_QUOTED.format('e')}"
)
_EDGE: Final = re.compile(
    r"(?i)\b(?P<edge>start|begin|end)(?:s|ing)?\s+"
    r"(?:it\s+|the (?:answer|reply|message|line)\s+)?with\s+" + _QUOTED.format("e")
)
_OR: Final = re.compile(
    r"(?i)\s*(?:,|/|,?\s*(?:or|oder|ou|o|или|或|または|또는))\s*" + _QUOTED.format("o")
)
_SECTION: Final = re.compile(
    r"(?i)\b(?:section|heading|abschnitt|überschrift)\s+(?:called|named|titled)?\s*"
    + _QUOTED.format("s")
)
_AT_MOST: Final = re.compile(
    r"(?i)\b(?:at most|no more than|not more than|maximum(?: of)?|max\.?|up to|under|"
    r"fewer than|less than|"
    r"höchstens|maximal|au plus|como máximo|no máximo|al massimo)\s+(?P<n>\d{1,6})\s*"
    r"(?P<unit>characters|chars|words|lines|zeichen|wörter|zeilen|caractères|mots|lignes|caracteres|palabras|"
    r"palavras|caratteri|parole)\b"
)
_JSON_ONLY: Final = re.compile(
    r"(?i)\b(?:only|just|nur|uniquement|solo|apenas)\b[^.!?\n]{0,20}\bJSON\b|\bJSON\b[^.!?\n]{0,12}\bonly\b"
)
_JSON: Final = r"\A\s*(?:```(?:json)?\s*)?[\[{](?s:.*)[\]}]\s*(?:```)?\s*\Z"
_WITHOUT_SPACES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_UNITS: Final = {
    "word": ("words", "wörter", "mots", "palabras", "palavras", "parole"),
    "line": ("lines", "zeilen", "lignes"),
}

_SEPARATOR: Final = re.compile(r"&&|\|\||[;\n]")
_UNSAFE: Final = re.compile(r"[$`<>|&(){}\\*?\x00-\x1f]")
_WRAPPERS: Final = (
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"),
    ("bundle", "exec"), ("npx",), ("pnpm", "exec"), ("yarn", "exec"), ("time",), ("env",),
)  # fmt: skip
_TESTS: Final = (
    ("pytest",), ("py.test",), ("tox",), ("nox",), ("python", "-m", "pytest"),
    ("python", "-m", "unittest"), ("python3", "-m", "pytest"), ("python3", "-m", "unittest"),
    ("npm", "test"), ("npm", "t"), ("npm", "run", "test"), ("pnpm", "test"),
    ("pnpm", "run", "test"), ("yarn", "test"), ("yarn", "run", "test"), ("bun", "test"),
    ("deno", "test"), ("jest",), ("vitest",), ("mocha",), ("make", "test"), ("make", "check"),
    ("cargo", "test"), ("cargo", "nextest"), ("go", "test"), ("mvn", "test"), ("mvn", "verify"),
    ("gradle", "test"), ("gradlew", "test"), ("dotnet", "test"), ("ctest",), ("rspec",),
    ("rake", "test"), ("phpunit",), ("mix", "test"), ("swift", "test"), ("bazel", "test"),
    ("hatch", "test"), ("just", "test"), ("composer", "test"), ("sbt", "test"),
)  # fmt: skip


def derived(
    intents: Sequence[str],
    corrections: Sequence[str],
    commands: Iterable[Sequence[str]],
    *,
    changed_files: bool,
    runs_commands: bool = True,
) -> Reference:
    """The reference of a task: from what was asked, what was corrected, and what was run.

    Where attempts cannot run commands, a test is the reference only if there is no other.
    """
    test = command_of_tests(commands)
    works_on_files = changed_files or (runs_commands and bool(test))
    if test and runs_commands:
        return Reference(kind="command", text=test)
    if not works_on_files:
        if expected := _expected(corrections):
            return Reference(kind="exact", text=expected)
        if checks := _checks(intents, corrections):
            return Reference(kind="rule", checks=checks)
    lines = [" ".join(text.split())[:_LINE] for text in corrections]
    if distinct := list(dict.fromkeys(filter(_says_something, lines))):
        said = "\n".join(f"- {line}" for line in distinct[:_MOST_LINES])
        return Reference(
            kind="rubric",
            text=f"The result heeds what the user had to correct before:\n{said}",
        )
    return Reference(kind="command", text=test) if test else Reference(kind="none")


def demands_something(text: str) -> bool:
    """Whether a text demands a format or literal text, as «shorter! at most 72 characters»."""
    return any(_of_format(text)) or any(_of_literals(text))


def _says_something(line: str) -> bool:
    return len(line.split()) > 2 or (len(line) > 4 and _WITHOUT_SPACES.search(line) is not None)


def command_of_tests(commands: Iterable[Sequence[str]]) -> str:
    """The test command that was run in most sessions, the latest of those; empty if there is none.

    Only plain commands count: without variables, pipes or redirections, and without secrets.
    """
    counts: Counter[str] = Counter()
    latest: dict[str, int] = {}
    for number, session in enumerate(commands):
        for test in dict.fromkeys(each for command in session for each in _tests(command)):
            counts[test] += 1
            latest[test] = number
    return max(counts, key=lambda test: (counts[test], latest[test]), default="")


def _tests(command: str) -> Iterator[str]:
    """The tests that a line of shell runs, each with the folder below the project that it is in."""
    folder = ""
    for piece in _SEPARATOR.split(command):
        part = piece.strip()
        if _UNSAFE.search(part) or HIDDEN in part:
            # Redirected or piped output is no part of the test itself.
            part = re.split(r"\s+\d?>|\s*\|", part)[0].strip()
        if not part or _UNSAFE.search(part) or HIDDEN in part:
            continue
        try:
            words = shlex.split(part)
        except ValueError:
            continue
        if words[:1] == ["cd"] and len(words) == 2:
            folder = words[1] if _is_inside(words[1]) else "/"
        elif _is_test(words) and folder != "/":
            yield f"cd {shlex.quote(folder)} && {part}" if folder else part


def _is_inside(path: str) -> bool:
    return not path.startswith(("/", "~", "-")) and ".." not in path.split("/")


def _is_test(words: Sequence[str]) -> bool:
    words = list(words)
    while words and (re.fullmatch(r"[A-Z_][A-Z0-9_]*=\S*", words[0])):
        words = words[1:]
    for wrapper in _WRAPPERS:
        if tuple(words[: len(wrapper)]) == wrapper and len(words) > len(wrapper):
            return _is_test(words[len(wrapper) :])
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    said = (program, *words[1:])
    if program in ("make", "mvn", "gradle", "gradlew"):
        said = (program, *(word for word in words[1:] if not word.startswith("-")))
    return any(said[: len(test)] == test for test in _TESTS) or (
        program in ("npm", "pnpm", "yarn") and "run" in words and words[-1].startswith("test:")
    )


def _expected(corrections: Sequence[str]) -> str:
    for text in reversed(corrections):
        if match := _EXPECTED.search(text):
            return _literal(match, "e")
    return ""


def _checks(intents: Sequence[str], corrections: Sequence[str]) -> tuple[Check, ...]:
    """Checks of what was asked in every wording of the task, and of every correction."""
    asked = [list(_of_format(intent)) for intent in intents]
    common = [check for check in asked[0] if all(check in each for each in asked)] if asked else []
    found = [*common]
    for text in corrections:
        found += [*_of_format(text), *_of_literals(text)]
    sound = [check for check in dict.fromkeys(found) if not problem_of(check)]
    return tuple(sound[:_MOST_CHECKS])


def _of_format(text: str) -> Iterator[Check]:
    if _JSON_ONLY.search(text):
        yield Check("regex", _JSON)
    for match in _AT_MOST.finditer(text):
        bound, unit = int(match["n"]), match["unit"].casefold()
        if unit in _UNITS["word"]:
            yield Check("regex", rf"\A\s*(?:\S+\s+){{0,{max(bound - 1, 0)}}}\S*\s*\Z")
        elif unit in _UNITS["line"]:
            yield Check("regex", rf"\A\n*(?:[^\n]*\n){{0,{max(bound - 1, 0)}}}[^\n]*\s*\Z")
        else:
            yield Check("max_chars", bound)
    for match in _SECTION.finditer(text):
        yield Check("section_present", _literal(match, "s"))
    for match in _EDGE.finditer(text):
        literal = _any_of(_alternatives(text, match, "e"))
        ends = match["edge"].casefold() == "end"
        yield Check("regex", rf"{literal}\s*\Z" if ends else rf"\A\s*{literal}")


def _of_literals(text: str) -> Iterator[Check]:
    demanded: list[tuple[str, ...]] = []
    refused: list[str] = []
    for match in _INSTEAD.finditer(text):
        demanded.append((_literal(match, "r"),))
        refused.append(_literal(match, "f"))
    demanded += [_alternatives(text, match, "r") for match in _REQUIRED.finditer(text)]
    for match in _FORBIDDEN.finditer(text):
        refused += _alternatives(text, match, "f")
    for wanted in demanded:
        if len(wanted) > 1:
            yield Check("regex", _any_of(wanted))
        else:
            yield from (Check("contains", each) for each in wanted if each not in refused)
    known = {each for wanted in demanded for each in wanted}
    yield from (Check("not_contains", each) for each in refused if each not in known)


def _alternatives(text: str, match: re.Match[str], name: str) -> tuple[str, ...]:
    """What is quoted there, and what else would do: `feat:` or `fix:`."""
    found, end = [_literal(match, name)], match.end()
    while more := _OR.match(text, end):
        found.append(_literal(more, "o"))
        end = more.end()
    return tuple(found)


def _any_of(literals: Sequence[str]) -> str:
    each = "|".join(map(re.escape, literals))
    return f"(?:{each})" if len(literals) > 1 else each


def _literal(match: re.Match[str], name: str) -> str:
    return next((text for kind in "abc" if (text := match[f"{name}{kind}"])), "").strip()
