"""Formats numbers and outcomes as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from skillopt.analysis.report import mean
from skillopt.api import is_simulated
from skillopt.core.chat import Usage
from skillopt.core.events import Action, Decision, Fact
from skillopt.core.facts import Drafted, EpochClosed, Pruned, Stepped
from skillopt.core.proposal import Size
from skillopt.core.rollout import Evaluation
from skillopt.core.rules import Worth
from skillopt.gates.compared import Metric
from skillopt.gates.statistics import Interval

ACTIONS: dict[Action, tuple[str, str]] = {
    "accept_new_best": ("accepted, new best", "green"),
    "accept": ("accepted", "green"),
    "reject": ("rejected", "yellow"),
    "force_accept": ("accepted without a gate", "green"),
    "skip_no_patches": ("skipped: no edits proposed", "dim"),
    "skip_no_change": ("skipped: no edit changed the skill", "dim"),
    "skip_no_rewrite": ("skipped: the optimizer returned no usable text", "dim"),
    "skip_too_long": ("skipped: longer than max_skill_tokens", "yellow"),
    "skip_screened": ("skipped: not better on the tasks of the step", "yellow"),
    "skip_no_gain": ("skipped: all tasks of the step already pass", "dim"),
}
"""What became of a step, with the colour to say it in."""


def outcome(action: Action, decision: Decision | None) -> tuple[str, str]:
    """What became of a candidate, with the colour to say it in."""
    words, colour = ACTIONS[action]
    unsure = decision is not None and decision.inconclusive
    return (f"{words}: inconclusive" if unsure else words), colour


def became(fact: Fact) -> tuple[str, str]:
    """What became of a move, with the colour to say it in."""
    match fact:
        case Drafted(action=action):
            return outcome(action, fact.decision)
        case _ if fact.decision is not None:
            return outcome(fact.decision.action, fact.decision)
        case Pruned():
            return "no rule removed", "dim"
        case EpochClosed():
            return "no guidance", "dim"
        case _:
            return "done", "dim"


def rated(decision: Decision | None) -> str:
    """The gate's number for a candidate; `<= 0.475` when it was not measured to the end."""
    if decision is None:
        return ""
    return f"{'<= ' if decision.bounded else ''}{decision.candidate.value:.3f}"


def count(number: int, noun: str) -> str:
    """`1 edit`, `2 edits`, `no edits`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if number else f"no {noun}s"


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


def graded(evaluation: Evaluation) -> bool:
    """Whether the soft score says more than the hard one."""
    return any(score.hard != score.soft for score in evaluation.scores.values())


def scored(evaluation: Evaluation, metric: Metric) -> str:
    """`hard 0.475 [0.33, 0.62], n 40`."""
    return f"{metric.name} {spread(mean(evaluation, metric))}, {sample(evaluation)}"


def spread(score: Interval) -> str:
    """`0.475 [0.33, 0.62]`."""
    return f"{score.mean:.3f} [{score.low:.2f}, {score.high:.2f}]"


def sample(evaluation: Evaluation) -> str:
    """`n 40`, and failed attempts if there were any."""
    lost, own = len(evaluation.failures), len(evaluation.own_failures)
    parts = (
        f"n {evaluation.n}",
        count(lost, "failure") if lost else "",
        f"{count(own, 'failure')} with this skill only, counted as 0" if own else "",
    )
    return ", ".join(filter(None, parts))


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


def gain(worth: Worth) -> str:
    """`+0.125 [-0.03, +0.25]`."""
    return f"{worth.gain:+.3f} [{worth.low:+.2f}, {worth.high:+.2f}]"


def train_score(fact: Stepped) -> float | None:
    """The mean hard score of a step's own attempts."""
    marks = [score.hard for batch in fact.batches for score in batch.evaluation.scores.values()]
    return sum(marks) / len(marks) if marks else None


def edits(fact: Drafted) -> str:
    """How many edits of a step changed the text, out of those that were chosen: `3`, `2 of 3`.

    A body that was written anew counts the proposals that went into it: `rewrite (4)`.
    """
    leading = fact.draft.leading
    if leading.rewritten is not None:
        return f"rewrite ({len(leading.chosen.proposals)})"
    applied, chosen = sum(edit.applied for edit in leading.report), len(leading.report)
    return str(applied) if applied == chosen else f"{applied} of {chosen}"


def repeats(fact: Drafted) -> str:
    """How many proposals of a step repeated a disproved one; empty when none did."""
    dropped = len(fact.draft.repeats)
    return f"dropped {count(dropped, 'repeat')} of rejected edits" if dropped else ""


def candidates_raced(fact: Drafted) -> str:
    """How many candidates a step had and which one was put to the gate; empty for one alone."""
    candidates = len(fact.draft.candidates)
    if candidates == 1:
        return ""
    best = f"best of {candidates}: {fact.draft.leading.name}"
    return best if fact.decision else f"{candidates} candidates"


def growth(size: Size) -> str:
    """Estimated tokens before and after: `312 -> 358 (+46)`."""
    shortened = f", {size.drafted:,} before shortening" if size.after != size.drafted else ""
    return f"{size.before:,} -> {size.after:,} ({size.added:+,}{shortened})"


def quoted(path: Path) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))


def model_name(name: str, mark: str = "simulated") -> str:
    """The name of a model, marked if it is simulated."""
    return f"{name} ({mark})" if is_simulated(name) else name
