"""What simulated models understand of a text: rules, requests and shown attempts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from skillopt.testing.simulator.office import BY_LABEL, FIELDS, Field, FieldForm

_SENTENCE = re.compile(r"(?<=[.;!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z])")
_NEGATED = re.compile(
    r"(?i)\b(?:not|never|no longer|instead of|rather than|don't|avoid|without)\b[^,;:)\n]*"
)
_HEADING = re.compile(r"\s*(?:#+\s|\*\*[^*]+\*\*:?\s*$|.*:\s*$)")
_ASKED = re.compile(r"Fill in the ([a-z ]+?)(?: and the ([a-z ]+?), in this order|\.)")
_EXPECTED = re.compile(
    r"""expected (['"])(.*?)\1(?: or .*?)?(?:, got (['"])(.*?)\3)?\s*$""", re.MULTILINE
)
_BLOCK = re.compile(r"<(attempt|pair)\b([^>]*[^/>])>(.*?)</\1>", re.DOTALL)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class StatedRule:
    """A rule found in a text: this field is written in this form."""

    field: str
    form: str
    statement: str
    """The words that say so, exactly as they stand in the text."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that a text says about how to write fields."""

    rules: tuple[StatedRule, ...]
    by_field: dict[str, tuple[str, ...]]
    """The different forms stated for each field; more than one is a contradiction."""


@lru_cache(maxsize=64)
def read_rules(text: str) -> Reading:
    """Find the rules in a text.

    A rule names a field and shows a form in one sentence; a sentence without a subject of its own
    belongs to what its line or the heading above is about. Negated words show no form.
    """
    rules = tuple(_stated_rules(text))
    forms = {rule.field: dict[str, None]() for rule in rules}
    for rule in rules:
        forms[rule.field][rule.form] = None
    return Reading(rules, {label: tuple(names) for label, names in forms.items()})


def _stated_rules(text: str) -> Iterator[StatedRule]:
    heading = ""
    for line in text.splitlines():
        if _HEADING.match(line):
            heading = line
        for statement in _SENTENCE.split(line):
            fields = fields_named(statement) or fields_named(f"{heading} {line}")
            meant = _NEGATED.sub(" ", statement)
            for field in fields:
                form = next((form for form in field.forms if re.search(form.shown, meant)), None)
                if form:
                    yield StatedRule(field.label, form.name, statement.strip())


def fields_named(text: str) -> list[Field]:
    return [field for field in FIELDS if re.search(field.subject, text, re.IGNORECASE)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A field that a request asks for, with the value that the request gives."""

    field: Field
    value: re.Match[str]

    def write(self, form: str) -> str:
        return self.field.write(form, self.value)


def read_request(text: str) -> tuple[Wanted, ...]:
    """What a request of this world asks for, in order; empty for any other text."""
    asked = _ASKED.search(text)
    wanted: list[Wanted] = []
    for label in filter(None, asked.groups()) if asked else ():
        field = BY_LABEL.get(label)
        value = re.search(field.raw, text) if field else None
        if field is None or value is None:
            return ()
        wanted.append(Wanted(field, value))
    return tuple(wanted)


def section(text: str, tag: str) -> str:
    """The text between the first `<tag>` and the last `</tag>`; empty when there is none."""
    tagged = re.search(rf"<{tag}>\n?(.*)\n?</{tag}>", text, re.DOTALL)
    return tagged[1].strip("\n") if tagged else ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of the target as a request shows it."""

    id: str
    change: str
    """For a pair of attempts: how the second compares with the first."""
    task: str
    expected: str | None
    got: str


def read_attempts(text: str) -> list[Attempt]:
    """The attempts or pairs shown in a request."""
    attempts: list[Attempt] = []
    for _, head, inner in _BLOCK.findall(text):
        attributes = dict(_ATTRIBUTE.findall(head))
        answers = _EXPECTED.findall(inner)
        _, expected, _, got = answers[-1] if answers else ("", None, "", "")
        task = section(inner, "task") or inner
        name, change = attributes.get("id", ""), attributes.get("change", "")
        attempts.append(Attempt(name, change, task, expected, got))
    return attempts


@dataclass(frozen=True, slots=True)
class Insight:
    """A form that explains the expected answers of a field."""

    field: Field
    form: FieldForm
    tasks: tuple[str, ...]


def infer(attempts: Iterable[Attempt]) -> list[Insight]:
    """Forms that explain every wrong field of the attempts, best supported first.

    A field of which no single form explains all expected answers teaches nothing.
    """
    tasks: dict[str, list[str]] = {}
    possible: dict[str, list[FieldForm]] = {}
    for attempt in attempts:
        for wanted, expected in _wrong_fields(attempt):
            label = wanted.field.label
            before = possible.get(label, wanted.field.forms)
            possible[label] = [form for form in before if wanted.write(form.name) == expected]
            tasks.setdefault(label, []).append(attempt.id)
    insights = [
        Insight(BY_LABEL[label], forms[0], tuple(sorted(set(tasks[label]))))
        for label, forms in possible.items()
        if forms
    ]
    return sorted(insights, key=lambda insight: (-len(insight.tasks), insight.field.label))


def _wrong_fields(attempt: Attempt) -> Iterator[tuple[Wanted, str]]:
    """Each field that was answered wrongly, with what was expected."""
    wanted = read_request(attempt.task)
    expected = [part.strip() for part in (attempt.expected or "").split("|")]
    answered = [part.strip() for part in attempt.got.split("|")]
    if attempt.expected is None or len(expected) != len(wanted):
        return
    for place, (field, right) in enumerate(zip(wanted, expected, strict=True)):
        if answered[place : place + 1] != [right]:
            yield field, right
