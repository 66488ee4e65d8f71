"""Numbers, names and outcomes as people are shown them, on a terminal and in a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from skillopt.core.chat import Usage
from skillopt.core.events import Action, Begun, Decision, Fact, FinalTested
from skillopt.core.facts import Drafted, EpochClosed, HumanReviewed, Pruned, Stepped
from skillopt.core.wording import counted
from skillopt.gates.statistics import Interval

ACTION_WORDS: Final[dict[Action, str]] = {
    "accept_new_best": "accepted, new best",
    "accept": "accepted",
    "reject": "rejected",
    "force_accept": "accepted without a gate",
    "skip_no_patches": "skipped: no edits proposed",
    "skip_no_change": "skipped: no edit changed the skill",
    "skip_no_rewrite": "skipped: the optimizer returned no usable text",
    "skip_too_long": "skipped: longer than max_skill_tokens",
    "skip_screened": "skipped: not better on the tasks of the step",
    "skip_no_gain": "skipped: all tasks of the step already pass",
}
"""What became of a step."""


def outcome_words(action: Action, decision: Decision | None) -> str:
    """What became of a candidate."""
    unsure = decision is not None and decision.inconclusive
    return f"{ACTION_WORDS[action]}: inconclusive" if unsure else ACTION_WORDS[action]


def action_of(fact: Fact) -> Action | None:
    """What was done with the candidate of a move; None where it had none."""
    if isinstance(fact, Drafted):
        return fact.action
    return None if fact.decision is None else fact.decision.action


def became_words(fact: Fact) -> str:
    """What became of a move."""
    if isinstance(fact, HumanReviewed):
        return _reviewed(fact)
    if (action := action_of(fact)) is not None:
        return outcome_words(action, fact.decision)
    match fact:
        case Pruned():
            return "no rule removed"
        case EpochClosed():
            return "no guidance"
        case Begun() | FinalTested():
            return "measured"
        case _:
            return "done"


REPORT_MARK: Final = "<!-- skillopt report -->"
"""In every report, so that only a report is overwritten by one."""
_DONE: Final = {"accept": "accepted", "reject": "rejected", "edit": "edited"}


def _reviewed(fact: HumanReviewed) -> str:
    """What a person decided, and what the gate said where it was asked."""
    who = fact.reviewer or "a person"
    words = f"{_DONE[fact.verdict]} by {who}"
    if (met := fact.decision) is None:
        return words
    if fact.verdict == "reject":
        return f"taken out by {who}"
    if not met.accepted:
        return f"{words}, but {outcome_words(met.action, met)} by the gate"
    return f"{words}, new best" if met.new_best else words


def count(number: int, noun: str) -> str:
    """`1 edit`, `2 edits`, `no edits`."""
    return counted(number, noun) if number else f"no {noun}s"


def short(number: int) -> str:
    """`950`, `23k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    if number < 10_000:
        return f"{number / 1_000:.1f}k"
    return f"{number / 1_000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def paid(usage: Usage) -> str:
    """`650 calls, 210k + 9k tokens`, `about` if estimated, and dollars where prices are known."""
    about = "about " if usage.estimated else ""
    return f"{count(usage.calls, 'call')}, {about}{consumed(usage)}"


def consumed(usage: Usage) -> str:
    """`210k + 9k tokens`, and dollars where prices are known."""
    tokens = f"{short(usage.input)} + {short(usage.output)} tokens"
    return f"{tokens}, {dollars(usage)}" if usage.dollars else tokens


def dollars(usage: Usage) -> str:
    """Money, to the cent or, below ten cents, finer."""
    return f"${usage.dollars:,.2f}" if usage.dollars >= 0.1 else f"${usage.dollars:.4f}"


def spread(score: Interval) -> str:
    """`0.475 [0.33, 0.62]`."""
    return f"{score.mean:.3f} [{score.low:.2f}, {score.high:.2f}]"


_SPELT = {
    "look_back": "epoch compare, old",
    "look_again": "epoch compare, new",
}
"""Moves and phases whose names in the record are not what people are shown."""


def spelt(name: str) -> str:
    """The name of a move or a phase as people are shown it."""
    return _SPELT.get(name) or re.sub(r"_0*(\d+)", r" \1", name).replace("_", " ")


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few of them, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def train_score(fact: Stepped) -> float | None:
    """The mean hard score of a step's own attempts."""
    marks = [score.hard for batch in fact.batches for score in batch.evaluation.scores.values()]
    return sum(marks) / len(marks) if marks else None
