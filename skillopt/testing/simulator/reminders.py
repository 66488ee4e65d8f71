"""Reminders in the simulated office: what they protect, how they are written and compacted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from skillopt.testing.simulator.evidence import Insight, section
from skillopt.testing.simulator.forms import Reading
from skillopt.testing.simulator.tasks import FIELDS

_START, _END = "<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->"
_WORDINGS = (
    "Apply the rule on the {} before you answer.",
    "Look the rule on the {} up each time; it is easily forgotten.",
    "Compare the {} with its rule before you send it.",
)


@lru_cache(maxsize=64)
def reminded(document: str) -> frozenset[str]:
    """Labels of the fields that the appendix of a skill reminds of; those are not forgotten."""
    _, _, rest = document.partition(_START)
    appendix, _, _ = rest.partition(_END)
    return frozenset(labels_in(appendix))


def labels_in(text: str) -> list[str]:
    """Labels of the fields that a text names."""
    return [each.label for each in FIELDS if each.subject.search(text)]


def remind(insights: Sequence[Insight], reading: Reading, user: str) -> list[str]:
    """A reminder for each field whose only stated form was right and yet not used."""
    skill, history = section(user, "skill"), section(user, "history")
    notes: list[str] = []
    for insight in insights:
        label = insight.field.label
        lapse = reading.by_field.get(label) == (insight.form.name,)
        if lapse and label not in reminded(skill):
            worded = [each.format(label) for each in _WORDINGS]
            notes += [note for note in worded if note not in history][:1]
    return notes


def compact(notes: Sequence[str]) -> list[str]:
    """Fewer reminders of the same fields: several fields share one."""
    labels = labels_in("\n".join(notes))
    size = max(3, -(-len(labels) // max(1, len(notes) - 1)))
    groups = [labels[at : at + size] for at in range(0, len(labels), size)]
    return [_WORDINGS[0].format(" and the ".join(group)) for group in groups]
