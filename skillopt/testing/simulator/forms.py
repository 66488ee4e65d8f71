"""Fields of office forms, the ways to write them, and the reading of rules about them.

Nothing here says which form the simulated house wants: that is known to `world` alone, and reaches
the optimizer only through the expected answers that it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

Write: TypeAlias = Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class FieldForm:
    """One way to write a field."""

    name: str
    write: Write
    shown: re.Pattern[str]
    """What a rule must say or show for this form to be understood."""
    rules: tuple[str, ...]
    """Ways in which a person would state it."""


@dataclass(frozen=True, slots=True)
class Field:
    """Something that a request asks for."""

    label: str
    subject: re.Pattern[str]
    """How a rule names the field."""
    raw: re.Pattern[str]
    """How a request gives the value."""
    plain: Write
    """What one answers without knowing the house's form."""
    draw: Callable[[Random], str]
    notes: tuple[str, ...]
    """Sentences around a drawn value, each with one `{}`."""
    forms: tuple[FieldForm, ...]
    """The more specific first: a rule counts for the first form that it shows."""

    def form(self, name: str) -> FieldForm:
        """The form of that name."""
        return next(form for form in self.forms if form.name == name)


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

    claims: tuple[StatedRule, ...] = ()
    words: int = 0
    by_field: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The different forms claimed for each field; more than one is a contradiction."""


def exact(*parts: str) -> re.Pattern[str]:
    """Any of the expressions, capitals told apart."""
    return re.compile("|".join(parts))


def words(*parts: str) -> re.Pattern[str]:
    """Any of the expressions, in capitals or not."""
    return re.compile("|".join(parts), re.IGNORECASE)


_SENTENCE = re.compile(r"(?<=[.;!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z])")
_NEGATED = re.compile(
    r"(?i)\b(?:not|never|no longer|instead of|rather than|don't|avoid|without)\b[^,;:)\n]*"
)
_HEADING = re.compile(r"\s*(?:#+\s|\*\*[^*]+\*\*:?\s*$|.*:\s*$)")


def read_rules(text: str, fields: tuple[Field, ...]) -> Reading:
    """Find the rules in a text.

    A rule names a field and shows a form in one sentence; a sentence without a subject of its own
    belongs to what its line or the heading above is about. Negated words show no form.
    """
    claims = tuple(_claims(text, fields))
    by_field: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        known = by_field.get(claim.field, ())
        if claim.form not in known:
            by_field[claim.field] = (*known, claim.form)
    return Reading(claims, len(text.split()), by_field)


def _claims(text: str, fields: tuple[Field, ...]) -> Iterator[StatedRule]:
    heading = ""
    for line in text.splitlines():
        if _HEADING.match(line):
            heading = line
        for statement in _SENTENCE.split(line):
            named = [each for each in fields if each.subject.search(statement)]
            if not named:
                named = [each for each in fields if each.subject.search(f"{heading} {line}")]
            meant = _NEGATED.sub(" ", statement)
            for each in named:
                form = next((form for form in each.forms if form.shown.search(meant)), None)
                if form:
                    yield StatedRule(each.label, form.name, statement.strip())


_ASKED = re.compile(r"Fill in the ([a-z ]+?)(?: and the ([a-z ]+?), in this order|\.)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A field that a request asks for, with the value that the request gives."""

    field: Field
    value: re.Match[str]


def read_request(text: str, fields: dict[str, Field]) -> tuple[Wanted, ...]:
    """What a request of this world asks for, in order; empty for any other text."""
    asked = _ASKED.search(text)
    if asked is None:
        return ()
    wanted: list[Wanted] = []
    for label in filter(None, asked.groups()):
        each = fields.get(label)
        value = each.raw.search(text) if each else None
        if each is None or value is None:
            return ()
        wanted.append(Wanted(each, value))
    return tuple(wanted)
