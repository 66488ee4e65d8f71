"""How the simulated models look into attempts: exploration and probes."""

from __future__ import annotations

import re

from skillopt.testing.simulator.reading import (
    Reading,
    Wanted,
    infer,
    read_attempts,
    read_request,
    read_rules,
    section,
)

_LISTED = re.compile(r"^(\d{3}-failed\S*\.md)  task ", re.MULTILINE)
_OPENED = re.compile(r"^(\d{3}-\S+\.md), lines \d+ to \d+ of \d+:", re.MULTILINE)
_SEARCHED = re.compile(r"^\d+ lines? found:|^No line holds ", re.MULTILINE)
_LEFT = re.compile(r"<turns_left>(\d+)</turns_left>")
_AT_ONCE = 6
_ENOUGH = 18
"""Attempts after which it has seen enough."""
_OVERLOOKED = "and I overlooked it"
_CONFIRMED = "Confirmed by a re-run:"
_PROBE = re.compile(r"<probe\b[^>]*>(.*?)</probe>", re.DOTALL)


def next_look(conversation: str) -> dict[str, object] | None:
    """The next turn, if it is one of looking around; None when it is time to conclude."""
    left = _LEFT.findall(conversation)
    if left and int(left[-1]) == 1:
        return None
    listed = dict.fromkeys(_LISTED.findall(conversation))
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


def explain(reading: Reading, task: str, answer: str) -> str:
    """What the target says about an answer of its own: which rules it had, and which it used."""
    wanted = read_request(task)
    answered = [part.strip() for part in re.sub(r"</?answer>", "", answer).split("|")]
    if not wanted or len(answered) != len(wanted):
        return "I answered as well as I could from the text."
    return " ".join(
        _account(field, text, reading) for field, text in zip(wanted, answered, strict=True)
    )


def _account(wanted: Wanted, answered: str, reading: Reading) -> str:
    label = wanted.field.label
    match reading.by_field.get(label, ()):
        case ():
            return f"I found no rule on the {label} and wrote it as the note has it."
        case (form,) if wanted.write(form) == answered:
            return f"I followed the rule on the {label}."
        case (_,):
            return f"There is a rule on the {label}, {_OVERLOOKED}."
        case _:
            return f"I found two rules on the {label} that contradict each other."


def probe(user: str, *, repairing: bool) -> dict[str, object]:
    """What to do next about the attempt in a request: ask, test the form that fits, conclude."""
    insights = infer(read_attempts(user))
    turns, left = section(user, "turns"), section(user, "turns_left").strip()
    rules = [insight.form.rules[0] for insight in insights]
    labels = " and the ".join(insight.field.label for insight in insights)
    kind, text = "conclude", ""
    if not turns.strip() and left != "0" and not repairing:
        kind, text = "ask", "Which passages of the skill did you rely on, and for what?"
    elif _OVERLOOKED in turns:
        text = f"The skill states the rule on the {labels}; it was not followed."
    elif not insights:
        text = "The attempt did what the skill says."
    elif "[score 1.00]" in turns:
        text = f"{_CONFIRMED} {' '.join(rules)}"
    elif "[re-run with]" in turns:
        text = f"The form of the {labels} is not the whole story."
    elif left == "0" or repairing:
        text = f"Not tested, but likely: the skill has no rule on the {labels}."
    else:
        kind, text = "rerun", "\n".join(f"- {rule}" for rule in rules)
    return {"reasoning": "One thing at a time.", "probe": kind, "text": text}


def confirmed(user: str) -> set[tuple[str, str]]:
    """Fields and their forms that re-runs have shown to be right, as a request tells of them."""
    lines = [line for text in _PROBE.findall(user) for line in text.splitlines()]
    conclusions = "\n".join(line for line in lines if _CONFIRMED in line)
    return {(rule.field, rule.form) for rule in read_rules(conclusions).rules}
