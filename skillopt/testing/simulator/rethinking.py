"""How the simulated optimizer looks back over an epoch: from the text of the request alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from skillopt.testing.simulator.forms import FieldForm, Reading, read_rules
from skillopt.testing.simulator.tasks import BY_LABEL, FIELDS


class Edit(BaseModel):
    """An edit as a direction lists it."""

    op: str = ""
    content: str | None = None


class Direction(BaseModel):
    """What a step tried, as the question lists it."""

    outcome: str
    edits: list[Edit] = Field(default_factory=list[Edit])


_DIRECTIONS = TypeAdapter(list[Direction])


def read_directions(text: str) -> list[Direction]:
    """The listed directions; none when the list cannot be read."""
    try:
        return _DIRECTIONS.validate_json(text)
    except ValidationError:
        return []


def rethink(
    skill: str,
    directions: Sequence[Direction],
    useless: Sequence[str],
    word: Callable[[FieldForm, str], str],
) -> list[dict[str, str]]:
    """Contradictions settled by what was accepted, rejected rules brought back, ballast dropped."""
    reading = read_rules(skill, FIELDS)
    taken = _claimed(directions, accepted=True)
    refused = _claimed(directions, accepted=False)
    return [
        *_settled(reading, taken),
        *_brought_back(reading, refused, word),
        *_unloaded(skill, useless),
    ]


def _claimed(directions: Sequence[Direction], *, accepted: bool) -> Counter[tuple[str, str]]:
    """How often each field was given each form in accepted or in rejected directions."""
    found: Counter[tuple[str, str]] = Counter()
    for direction in directions:
        if ("accept" in direction.outcome) == accepted:
            for edit in direction.edits:
                claims = read_rules(edit.content or "", FIELDS).claims
                found.update({(claim.field, claim.form) for claim in claims})
    return found


def _settled(reading: Reading, taken: Counter[tuple[str, str]]) -> Iterator[dict[str, str]]:
    for claim in reading.claims:
        forms = reading.by_field[claim.field]
        others = [form for form in forms if form != claim.form and taken[claim.field, form]]
        if others and not taken[claim.field, claim.form]:
            yield _edit("delete", claim.statement, "", f"another form of the {claim.field} helped")


def _brought_back(
    reading: Reading, refused: Counter[tuple[str, str]], word: Callable[[FieldForm, str], str]
) -> Iterator[dict[str, str]]:
    for (label, name), _ in sorted(refused.items(), key=lambda each: (-each[1], each[0])):
        if label not in reading.by_field:
            rule = word(BY_LABEL[label].form(name), label)
            yield _edit("append", "", rule, f"the {label} was only tried beside other edits")


def _unloaded(skill: str, useless: Sequence[str]) -> Iterator[dict[str, str]]:
    for text in useless:
        if line := re.search(rf"^.*{re.escape(text)}.*$", skill, re.MULTILINE):
            yield _edit("delete", line[0], "", "nobody can act on it")


def _edit(op: str, target: str, content: str, why: str) -> dict[str, str]:
    return {"op": op, "target": target, "content": content, "why": why}
