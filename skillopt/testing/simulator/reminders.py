"""Reminders in the simulated office: what they protect, how they are written and compacted."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.testing.simulator.reading import (
    fields_named,
    infer,
    read_attempts,
    read_rules,
    section,
)

_START, _END = "<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->"
_WORDINGS = (
    "Apply the rule on the {} before you answer.",
    "Look the rule on the {} up each time; it is easily forgotten.",
    "Compare the {} with its rule before you send it.",
)


def reminded(document: str) -> set[str]:
    """Labels of the fields that the appendix of a skill reminds of; those are not forgotten."""
    return set(labels_in(document.partition(_START)[2].partition(_END)[0]))


def labels_in(text: str) -> list[str]:
    """Labels of the fields that a text names."""
    return [field.label for field in fields_named(text)]


def remind(user: str) -> list[str]:
    """A reminder for each field whose only stated form was right and yet not used."""
    skill, history = section(user, "skill"), section(user, "history")
    stated = read_rules(skill).by_field
    reminders: list[str] = []
    for insight in infer(read_attempts(user)):
        label = insight.field.label
        if stated.get(label) == (insight.form.name,) and label not in reminded(skill):
            worded = [wording.format(label) for wording in _WORDINGS]
            reminders += [reminder for reminder in worded if reminder not in history][:1]
    return reminders


def compact(reminders: Sequence[str]) -> list[str]:
    """Fewer reminders of the same fields: several fields share one."""
    labels = labels_in("\n".join(reminders))
    size = max(3, -(-len(labels) // max(1, len(reminders) - 1)))
    groups = [labels[at : at + size] for at in range(0, len(labels), size)]
    return [_WORDINGS[0].format(" and the ".join(group)) for group in groups]
