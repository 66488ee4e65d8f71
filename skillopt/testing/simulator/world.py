"""A made-up office with twelve house conventions, as tasks with known answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

from skillopt.testing.simulator.office import BY_LABEL, FIELDS, Field
from skillopt.testing.simulator.reading import read_request

HOUSE: Mapping[str, str] = {
    "delivery date": "iso",
    "invoice amount": "cents",
    "ticket queue": "code",
    "contact name": "surname_first",
    "shelf length": "one_decimal",
    "phone number": "dots",
    "priority level": "p_codes",
    "room code": "letter_first",
    "approval flag": "letters",
    "planning week": "short",
    "billable time": "quarters_up",
    "start time": "h_between",
}
"""The hidden conventions. Only expected answers are made from them."""

_OPENINGS = (
    "A note from the front desk, sheet {}.",
    "From today's mail, letter {}.",
    "A colleague forwards case {}.",
    "Line {} of the office log.",
    "Message {} on the answering machine.",
)

_INITIAL = """\
# Office clerk

You fill in fields of the office's forms from short notes.

- Read the whole note before you answer, and answer with the field's value only.
- The house has its own style for most fields; keep to it where you know it.
- An approval flag is Y or N.
- Priorities go from P1 for urgent to P4 for minor.
- Dates and amounts should be easy to read.
"""


def initial_skill() -> str:
    """A short document to start from: plausible, mostly vague, right about two fields."""
    return _INITIAL


def stated_skill() -> str:
    """A document that states every convention, for tests and upper bounds."""
    rules = [f"- {BY_LABEL[label].form(name).rules[0]}" for label, name in HOUSE.items()]
    return "# Office clerk\n\n" + "\n".join(rules) + "\n"


def make_items(n: int, seed: int, house: Mapping[str, str] = HOUSE) -> list[dict[str, str]]:
    """Rows for `env: custom`, no two with the same input; every fourth needs two conventions."""
    rng = Random(seed)  # noqa: S311
    rows: list[dict[str, str]] = []
    seen: set[str] = set()
    deck: list[Field] = []
    while len(rows) < n:
        if not deck:
            deck = rng.sample(FIELDS, len(FIELDS))
        first = deck.pop()
        fields = [first]
        if len(rows) % 4 == 3:
            fields.append(rng.choice([field for field in FIELDS if field is not first]))
        text = _request(fields, rng)
        while text in seen:
            text = _request(fields, rng)
        seen.add(text)
        kind = first.label if len(fields) == 1 else "two fields"
        row = {"id": f"office-{len(rows):04}", "kind": kind, "input": text}
        rows.append({**row, "answer": _right_answer(text, house)})
    return rows


def write_data(folder: Path, sizes: tuple[int, int, int], seed: int) -> None:
    """Write `train`, `val` and `test` folders with an `items.jsonl` each; no content twice."""
    rows = make_items(sum(sizes), seed)
    for name, size in zip(("train", "val", "test"), sizes, strict=True):
        part, rows = rows[:size], rows[size:]
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in part)
        (place / "items.jsonl").write_text(lines, encoding="utf-8")


def _request(fields: list[Field], rng: Random) -> str:
    notes = [rng.choice(field.notes).format(field.draw(rng)) for field in fields]
    asked = f"Fill in the {fields[0].label}."
    if len(fields) == 2:
        labels = " and the ".join(field.label for field in fields)
        asked = f'Fill in the {labels}, in this order, separated by " | ".'
    rng.shuffle(notes)
    opening = rng.choice(_OPENINGS).format(rng.randint(1000, 9999))
    return " ".join([opening, *notes, asked])


def _right_answer(text: str, house: Mapping[str, str]) -> str:
    wanted = read_request(text)
    return " | ".join(field.write(house[field.field.label]) for field in wanted)
