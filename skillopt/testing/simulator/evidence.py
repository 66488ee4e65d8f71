"""What the simulated optimizer can see in a request, and what it concludes from it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from skillopt.testing.simulator.forms import Field, FieldForm, read_request
from skillopt.testing.simulator.tasks import BY_LABEL

_EXPECTED = re.compile(
    r"""expected (['"])(.*?)\1(?: or .*?)?(?:, got (['"])(.*?)\3)?\s*$""", re.MULTILINE
)
_BLOCK = re.compile(r"<(attempt|pair)\b([^>]*[^/>])>(.*?)</\1>", re.DOTALL)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of the target as a request shows it."""

    id: str
    change: str
    """For a pair of attempts: how the second compares with the first."""
    task: str
    expected: str | None
    got: str


@dataclass(frozen=True, slots=True)
class Insight:
    """A form that explains the expected answers of a field."""

    field: Field
    form: FieldForm
    tasks: tuple[str, ...]


def section(text: str, tag: str) -> str:
    """The text between the first `<tag>` and the last `</tag>`; empty when there is none."""
    found = re.search(rf"<{tag}>\n?(.*)\n?</{tag}>", text, re.DOTALL)
    return found[1].strip("\n") if found else ""


def read_attempts(text: str) -> list[Attempt]:
    """The attempts or pairs shown in a request."""
    attempts: list[Attempt] = []
    for _, head, inner in _BLOCK.findall(text):
        attributes = dict(_ATTRIBUTE.findall(head))
        answers = _EXPECTED.findall(inner)
        _, expected, _, got = answers[-1] if answers else ("", None, "", "")
        attempts.append(
            Attempt(
                attributes.get("id", ""),
                attributes.get("change", ""),
                section(inner, "task") or inner,
                expected,
                got,
            )
        )
    return attempts


def infer(attempts: Iterable[Attempt]) -> list[Insight]:
    """Forms that explain every wrong field of the attempts, best supported first.

    A field of which no single form explains all expected answers teaches nothing.
    """
    tasks: dict[str, list[str]] = {}
    possible: dict[str, list[FieldForm]] = {}
    for attempt in attempts:
        for field, forms in _explanations(attempt):
            before = possible.get(field.label, list(field.forms))
            possible[field.label] = [form for form in before if form in forms]
            tasks.setdefault(field.label, []).append(attempt.id)
    insights = [
        Insight(BY_LABEL[label], forms[0], tuple(sorted(set(tasks[label]))))
        for label, forms in possible.items()
        if forms
    ]
    return sorted(insights, key=lambda insight: (-len(insight.tasks), insight.field.label))


def fields_of(attempts: Iterable[Attempt]) -> list[Field]:
    """The fields that the attempts were about, each once."""
    wanted = [each for attempt in attempts for each in read_request(attempt.task, BY_LABEL)]
    return list({each.field.label: each.field for each in wanted}.values())


def _explanations(attempt: Attempt) -> Iterable[tuple[Field, list[FieldForm]]]:
    """Per field that was answered wrongly: the forms that would have given what was expected."""
    wanted = read_request(attempt.task, BY_LABEL)
    if attempt.expected is None or not wanted:
        return
    parts = [part.strip() for part in attempt.expected.split("|")]
    answered = [part.strip() for part in attempt.got.split("|")]
    if len(parts) != len(wanted):
        return
    for place, each in enumerate(wanted):
        if place < len(answered) and answered[place] == parts[place]:
            continue
        yield (
            each.field,
            [form for form in each.field.forms if form.write(each.value) == parts[place]],
        )
