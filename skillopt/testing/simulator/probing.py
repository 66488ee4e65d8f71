"""How the simulated models look into attempts: exploration and probes."""

from __future__ import annotations

import re

from skillopt.testing.simulator.evidence import infer, read_attempts, section
from skillopt.testing.simulator.forms import Reading, Wanted, read_request, read_rules
from skillopt.testing.simulator.tasks import BY_LABEL, FIELDS

_LISTED = re.compile(r"^(\d{3}-failed\S*\.md)  task ", re.MULTILINE)
_OPENED = re.compile(r"^(\d{3}-\S+\.md), lines \d+ to \d+ of \d+:", re.MULTILINE)
_SEARCHED = re.compile(r"^\d+ lines? found:|^No line holds ", re.MULTILINE)
_LEFT = re.compile(r"<turns_left>(\d+)</turns_left>")
_AT_ONCE = 6
_ENOUGH = 18
"""Attempts after which it has seen enough."""


def next_look(conversation: str) -> dict[str, object] | None:
    """The next turn, if it is one of looking around; None when it is time to conclude."""
    left = _LEFT.findall(conversation)
    if left and int(left[-1]) == 1:
        return None
    listed = list(dict.fromkeys(_LISTED.findall(conversation)))
    opened = set(_OPENED.findall(conversation))
    closed = [name for name in listed if name not in opened]
    if "<result " not in conversation:
        return _turn("What is there?", {"tool": "list"})
    if closed and len(opened) < _ENOUGH:
        reads = [{"tool": "read", "file": name} for name in closed[:_AT_ONCE]]
        return _turn("What went wrong in these?", *reads)
    if not _SEARCHED.search(conversation):
        return _turn("How often was something else expected?", {"tool": "grep", "text": "expected"})
    return None


def _turn(reasoning: str, *calls: dict[str, str]) -> dict[str, object]:
    return {"reasoning": reasoning, "calls": list(calls)}


_OVERLOOKED = "and I overlooked it"
_CONFIRMED = "Confirmed by a re-run:"
_PROBE = re.compile(r"<probe\b[^>]*>(.*?)</probe>", re.DOTALL)


def explain(reading: Reading, task: str, answer: str) -> str:
    """What the target says about an answer of its own: which rules it had, and which it used."""
    wanted = read_request(task, BY_LABEL)
    said = [part.strip() for part in re.sub(r"</?answer>", "", answer).split("|")]
    if not wanted or len(said) != len(wanted):
        return "I answered as well as I could from the text."
    return " ".join(_account(*each, reading) for each in zip(wanted, said, strict=True))


def _account(wanted: Wanted, said: str, reading: Reading) -> str:
    label = wanted.field.label
    match reading.by_field.get(label, ()):
        case ():
            return f"I found no rule on the {label} and wrote it as the note has it."
        case (form,) if wanted.field.form(form).write(wanted.value) == said:
            return f"I followed the rule on the {label}."
        case (_,):
            return f"There is a rule on the {label}, {_OVERLOOKED}."
        case _:
            return f"I found two rules on the {label} that contradict each other."


def probe(user: str, *, repairing: bool) -> dict[str, object]:
    """What to do next about the attempt in a request: ask, test the form that fits, conclude."""
    insights = infer(read_attempts(user))
    turns, left = section(user, "turns"), section(user, "turns_left").strip()
    rules = [f"- {rule}" for each in insights for rule in each.form.rules[:1]]
    told = " ".join(rule.removeprefix("- ") for rule in rules)
    labels = " and the ".join(each.field.label for each in insights)
    if not turns.strip() and left != "0" and not repairing:
        return _move("ask", "Which passages of the skill did you rely on, and for what?")
    if _OVERLOOKED in turns:
        return _move("conclude", f"The skill states the rule on the {labels}; it was not followed.")
    if not insights:
        return _move("conclude", "The attempt did what the skill says.")
    if "[score 1.00]" in turns:
        return _move("conclude", f"{_CONFIRMED} {told}")
    if "[re-run with]" in turns:
        return _move("conclude", f"The form of the {labels} is not the whole story.")
    if left == "0" or repairing:
        return _move("conclude", f"Not tested, but likely: the skill has no rule on the {labels}.")
    return _move("rerun", "\n".join(rules))


def _move(kind: str, text: str) -> dict[str, object]:
    return {"reasoning": "One thing at a time.", "probe": kind, "text": text}


def confirmed(user: str) -> set[tuple[str, str]]:
    """Fields and their forms that re-runs have shown to be right, as a request tells of them."""
    told = "\n".join(text for text in _PROBE.findall(user) if _CONFIRMED in text)
    concluded = "\n".join(line for line in told.splitlines() if _CONFIRMED in line)
    return {(each.field, each.form) for each in read_rules(concluded, FIELDS).claims}
